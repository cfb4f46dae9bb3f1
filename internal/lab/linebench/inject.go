package main

import "math/rand/v2"

// kind is the way in which an injected line is strange.
type kind int

const (
	ordinary kind = iota
	foreign       // a line of another system's format
	field         // a line of a known format with another path, user or status
	wrong         // a line at the wrong time: a copy of an earlier line
)

var kindNames = [...]string{"ordinary", "foreign", "field", "time"}

type line struct {
	text     string
	kind     kind
	incident int // index of the line's incident; -1: none
	label    string
}

const (
	// quiet is the fraction at the beginning of a log that stays unchanged, so that every method
	// can first learn the log's usual lines.
	quiet = 1. / 4
	// apart is the number of lines between the starts of two incidents, on average.
	apart = 80
	// linesMax is the maximum number of lines of an incident.
	linesMax = 3
	// old is the minimum age, in lines, of a line that is copied to a later, wrong time.
	old = 50
	// known is how often a line format must have occurred before inject changes a field in a line
	// of this format.
	known = 2
)

// inject adds incidents to a log. An incident is one to three strange lines of one kind, close
// together. The first quarter of the log stays unchanged. Each later group of 80 lines gets at most
// one incident, at a random position. The kinds alternate. Equal logs and seeds give equal results.
func inject(log []string, seed uint64) []line {
	g := &injector{log: log, rand: rand.New(rand.NewPCG(seed, 0)), seen: map[string]int{}}
	start := start(len(log))
	turn := g.rand.IntN(int(wrong))
	for at := 0; at < len(log); {
		slot := at >= start && (at-start)%apart == 0 && at+apart <= len(log)
		if !slot {
			g.pass(at)
			at++
			continue
		}
		begin, end := at+g.rand.IntN(apart/2), at+apart
		for ; at < begin; at++ {
			g.pass(at)
		}
		at = g.incident(at, end, foreign+kind(turn%int(wrong)))
		turn++
		for ; at < end; at++ {
			g.pass(at)
		}
	}
	return g.lines
}

// start returns the index of the first evaluated line. Earlier lines stay unchanged.
func start(lines int) int { return min(lines, max(old, int(quiet*float64(lines)))) }

type injector struct {
	log       []string
	rand      *rand.Rand
	seen      map[string]int
	lines     []line
	incidents int
}

func (g *injector) pass(at int) {
	for _, f := range fields(g.log[at]) {
		g.seen[f.format]++
	}
	g.lines = append(g.lines, line{text: g.log[at], incident: -1})
}

// incident writes an incident of kind k. Log lines with indexes from `at` to end-1 may lie between
// its strange lines. incident returns the index of the next log line to copy.
func (g *injector) incident(at, end int, k kind) int {
	wanted := 1 + g.rand.IntN(linesMax)
	written := 0
	for written < wanted && at < end {
		text, ok := g.strange(at, k)
		if ok {
			g.lines = append(g.lines, line{text: text, kind: k, incident: g.incidents})
			written++
		}
		if ok && k == field {
			at++ // the changed line replaces its original
		}
		if written < wanted && (!ok || g.rand.IntN(linesMax) > 0) && at < end {
			g.pass(at)
			at++
		}
	}
	if written > 0 {
		g.incidents++
	}
	return at
}

// strange returns a strange line of kind k to insert at index `at` of the log. For kind `field`,
// the result ok is false if the line at this index has no field to change.
func (g *injector) strange(at int, k kind) (text string, ok bool) {
	switch k {
	case foreign:
		return foreignLine(g.rand), true
	case wrong:
		return g.log[g.rand.IntN(at-old+1)], true
	}
	var candidates []place
	for _, f := range fields(g.log[at]) {
		if g.seen[f.format] >= known {
			candidates = append(candidates, f)
		}
	}
	if len(candidates) == 0 {
		return "", false
	}
	f := candidates[g.rand.IntN(len(candidates))]
	return g.log[at][:f.from] + other(f, g.rand) + g.log[at][f.to:], true
}
