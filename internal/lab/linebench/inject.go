package main

import "math/rand/v2"

// kind says in which way an injected line is strange.
type kind int

const (
	ordinary kind = iota // a line of the log
	foreign              // a line of another system's format
	field                // a line of a known format with another path, user or status
	wrong                // a known line at the wrong time: an old one, word for word
)

var kindNames = [...]string{"ordinary", "foreign", "field", "time"}

// line is a line of a log with injected lines.
type line struct {
	text     string // without its newline
	kind     kind
	incident int    // number of the incident that the line belongs to, counted from 0; -1: none
	label    string // of a log with labels
}

const (
	// quiet is the part of a log that is left alone: every method is to know the log's habits.
	quiet = 1. / 4
	// apart is the number of lines for which the rest of the log has one incident.
	apart = 80
	// linesMax is the largest number of lines of an incident.
	linesMax = 3
	// old is how many lines a line must lie back to be known but out of time.
	old = 50
	// known is how often a format must have occurred before a field of it is changed.
	known = 2
)

// inject puts incidents into a log: one to three strange lines of one kind, with up to two ordinary
// lines between two of them. The first quarter of the log stays as it is; after it comes one
// incident in every 80 lines, somewhere among them, the kinds in turn. Lines are a function of the
// log and the seed. A log of less than a few hundred lines gets few incidents, or none.
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

// start is the line of a log from which on lines are injected, and judged.
func start(lines int) int { return min(lines, max(old, int(quiet*float64(lines)))) }

type injector struct {
	log       []string
	rand      *rand.Rand
	seen      map[string]int // how often each format has occurred
	lines     []line
	incidents int
}

// pass takes over a line of the log.
func (g *injector) pass(at int) {
	for _, f := range fields(g.log[at]) {
		g.seen[f.format]++
	}
	g.lines = append(g.lines, line{text: g.log[at], incident: -1})
}

// incident writes an incident of a kind, in front of line at and before line end of the log, and
// returns the line at which the log goes on.
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
			at++ // the line stands in the place of the one that it was made of
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

// strange makes a strange line for the place of line at of the log; ok is false if the kind has no
// line there.
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
