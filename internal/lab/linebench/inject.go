package main

import "math/rand/v2"

// kind is the way in which an injected line is strange.
type kind int

const (
	ordinary kind = iota // not injected
	foreign              // a line of another system's format
	field                // a line of a known format with another path, user or status
	wrong                // a line at the wrong time: a copy of an earlier line
)

var kindNames = [...]string{"ordinary", "foreign", "field", "time"}

// line is a line of a log with injected lines.
type line struct {
	text     string // without its newline
	kind     kind
	incident int    // number of the line's incident, from 0; -1 if it has none
	label    string // empty in a log without labels
}

const (
	// quiet is the fraction of a log that is left unchanged, so that every method can learn the
	// log's habits.
	quiet = 1. / 4
	// apart is the number of lines between the starts of two incidents, on average.
	apart = 80
	// linesMax is the maximum number of lines of an incident.
	linesMax = 3
	// old is the minimum age, in lines, of a line that is copied to a later, wrong time.
	old = 50
	// known is the minimum number of earlier lines of a format before inject changes a line of it.
	known = 2
)

// inject injects incidents into a log. An incident is one to three strange lines of one kind, with
// up to two ordinary lines between two strange ones. The first quarter of the log is unchanged.
// Each later group of 80 lines gets one incident at a random place. The kinds take turns. The
// result is a function of the log and the seed. A log of less than a few hundred lines gets few
// incidents, or none.
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

// start returns the index of the first line that is judged. Nothing is injected before it.
func start(lines int) int { return min(lines, max(old, int(quiet*float64(lines)))) }

type injector struct {
	log       []string
	rand      *rand.Rand
	seen      map[string]int // number of occurrences of each format
	lines     []line
	incidents int
}

// pass copies line `at` of the log unchanged.
func (g *injector) pass(at int) {
	for _, f := range fields(g.log[at]) {
		g.seen[f.format]++
	}
	g.lines = append(g.lines, line{text: g.log[at], incident: -1})
}

// incident writes an incident of kind k among the log's lines with indexes from `at` to end-1. It
// returns the index of the first line that it has not copied or replaced.
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

// strange makes a strange line of kind k for position `at` of the log. The result ok is false if
// the kind is `field`, and the line at this position has no field that can be changed.
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
