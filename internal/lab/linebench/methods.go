package main

import (
	"github.com/lmserve/lmserve/internal/arithmetic/lines"
	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
)

// method is a way to rate how strange a line is, given the earlier lines. A larger rating means a
// stranger line.
type method int

const (
	ratingP method = iota
	partB
	partE
	partV
	partW
	rarestWord
	wordsSum
	drainRarity
	modelBits
	modelBitsPerByte
	novelty
	methods
)

var methodNames = [methods]string{
	"rating (P)", "B: words alone", "E: crowds alone", "V: values alone", "W: tokens alone",
	"rarest word", "sum of words' rarities", "Drain, templates' rarity", "counts of bytes, bits",
	"counts of bytes, bits a byte", "line novelty (masked)",
}

// scored is a line with the rating of each method.
type scored struct {
	line
	ratings [methods]float64
	p       float64
	told    bool // whether watch, with its default threshold, prints an incident at the line
}

// toldMost is the maximum P of an incident that watch prints by default.
const toldMost = 1. / 1000

// score rates a log with all methods, in one pass: each line is rated, then learned. If trouble has
// words of trouble, the ratings take them into account.
func score(log []line, trouble string) []scored {
	counts := model.Counts()
	set := stream.DefaultsFor(counts, stream.Counts)
	set.Companion = true
	worker := stream.NewWorker(counts, 1)
	defer worker.Close()
	bytes := stream.New(counts, set)

	rating, meter := lines.NewRating(), lines.NewMeter()
	rating.Trouble(trouble)
	meter.Trouble(trouble)
	words := counter{count: map[string]float64{}}
	templates := drain{groups: map[drainGroup]*drainLeaf{}}
	seen := map[string]float64{}
	incidents := told{}
	result := make([]scored, len(log))
	for i := range log {
		r := &result[i]
		r.line = log[i]
		p, parts, _, _ := rating.Take([]byte(r.text[:min(len(r.text), lines.TextMax)]))
		r.p = p
		r.ratings[ratingP] = 1 / p
		r.ratings[partB], r.ratings[partE] = parts.B, parts.E
		r.ratings[partV], r.ratings[partW] = parts.V, parts.W
		r.ratings[rarestWord], r.ratings[wordsSum] = words.rate(spaced(r.text))
		r.ratings[drainRarity] = templates.rate(r.text)
		before := bytes.Tally.Bits
		worker.Feed(bytes, []byte(r.text+"\n"), nil)
		bits := bytes.Tally.Bits - before
		r.ratings[modelBits], r.ratings[modelBitsPerByte] = bits, bits/float64(len(r.text)+1)
		masked := withoutVariables(r.text)
		r.ratings[novelty] = 1 / (1 + seen[masked])
		seen[masked]++
		for _, c := range []byte(r.text + "\n") {
			meter.Add(c, 0, 0, func(l *lines.Line) { r.told = incidents.take(l) })
		}
	}
	return result
}

// told is the set of the numbers of incidents that watch has printed.
type told map[int64]bool

// take reports whether watch prints an incident at a line. watch prints an incident once, as soon
// as the incident is strange enough or has a change.
func (t told) take(l *lines.Line) (now bool) {
	for _, e := range l.Incidents {
		if !e.Closed && !t[e.Number] && (e.P <= toldMost || len(e.Changes) > 0) {
			t[e.Number], now = true, true
		}
	}
	return now
}

func (m method) String() string { return methodNames[m] }
