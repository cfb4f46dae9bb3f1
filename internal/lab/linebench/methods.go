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

type scored struct {
	line
	ratings [methods]float64
	p       float64
	told    bool
}

// toldMost is the default threshold of `lmserve watch`: it prints incidents with at most this
// probability.
const toldMost = 1. / 1000

// score rates the lines of a log with all methods. Each method rates a line before learning from
// the line. The parameter trouble is a list of words, such as "error", that ratings consider, or
// "".
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

type told map[int64]bool

// take reports whether `lmserve watch` prints an incident at a line. Each incident is printed once,
// as soon as it is strange enough or has a change.
func (t told) take(l *lines.Line) (now bool) {
	for _, e := range l.Incidents {
		if !e.Closed && !t[e.Number] && (e.P <= toldMost || len(e.Changes) > 0) {
			t[e.Number], now = true, true
		}
	}
	return now
}

func (m method) String() string { return methodNames[m] }
