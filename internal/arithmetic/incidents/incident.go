// Package incidents groups the strange lines of a text into incidents, so that a watcher gets one
// report for lines that belong together.
//
// A Tracker takes the lines of a text in order, each with the probability of its rating and its
// tokens. A strange line, or a change, opens an incident. A line joins an open incident if it has
// the incident's strangest token in the same place, even when that token has become usual. A
// strange line also joins if it follows directly or shares a rare token. An incident closes when
// no line has joined it for a while, or when its lines have become usual.
//
// The tracker counts in lines, not in time, so that incidents depend on the text alone.
package incidents

import "slices"

// Strange is the maximum probability of a line that opens or joins an incident. Callers can
// filter further by Incident.P.
const Strange = 1. / 100

const (
	// adjacent is the number of lines after an incident's last within which any strange line
	// joins it, like the lines of a stack trace.
	adjacent = 1
	// quiet is the number of lines without one of an incident after which it closes.
	quiet = 200
	// stays is the number of an incident's lines after which they count as usual.
	stays = 500

	// Kept is the number of incidents that a tracker remembers, open or closed.
	Kept = 32

	rareMost    = 8  // rare tokens of its first line that identify an incident
	samplesMost = 3  // lines of an incident kept as text
	changesMost = 4  // changes of an incident that are kept
	around      = 64 // lines from an incident within which a change belongs to it
	// SampleBytes is the maximum size of a line kept as text.
	SampleBytes = 160
)

// Mark identifies a token in its place, or a word in any place.
type Mark uint64

// Why explains why a line is strange.
type Why struct {
	Before string   `json:"before,omitzero"` // the word before the token
	Token  string   `json:"token,omitzero"`  // the strangest part of the line
	Usual  []string `json:"usual,omitzero"`  // usual tokens in that place; read-only
	Rare   bool     `json:"rare,omitzero"`   // the token is rare in any place
	Lines  int64    `json:"lines,omitzero"`  // earlier lines with a rare token
}

// Line is a line of the text.
type Line struct {
	Number int64 // from 1
	Offset int64 // of its first byte in the text
	// probability that an ordinary line is at least as strange; 1 before warm-up
	P     float64
	Text  []byte
	Key   Mark       // of the token that Why is about
	Place Mark       // its place, or Key if it is rare in any place
	Why   func() Why // called if the line opens an incident
	Marks []Mark     // of all parts of the line
	Rare  []Mark     // of its rare parts
	// Changes are the changes at the line; read-only.
	Changes []Change
}

// Change is a change that a line shows: a surge, a silence, a novelty, a number outside its past,
// or another kind of package changes.
type Change struct {
	Key      Mark   `json:"key"`            // of what changed
	Token    Mark   `json:"token,omitzero"` // joins lines with it to a surge's incident
	Kind     string `json:"kind"`
	Line     int64  `json:"line"`     // at which it is reported
	First    int64  `json:"first"`    // at which it began
	Evidence string `json:"evidence"` // as a sentence
}

// Incident is a group of strange lines and changes that belong together.
type Incident struct {
	Number  int64   `json:"number"`  // of the incidents of the text, from 1
	First   int64   `json:"first"`   // number of its first line
	Last    int64   `json:"last"`    // and of its last one so far
	Offset  int64   `json:"offset"`  // in the text, of the first line's first byte
	Lines   int64   `json:"lines"`   // number of its lines
	Strange int64   `json:"strange"` // of these, with P at most Strange
	P       float64 `json:"p"`       // the least of its lines; 1 for changes alone
	Closed  bool    `json:"closed,omitzero"`
	Stays   bool    `json:"stays,omitzero"` // closed because its lines are usual now

	Why Why `json:"why"`
	// beginnings of its lines, in order
	Samples [samplesMost]string `json:"samples"`
	Changes []Change            `json:"changes,omitzero"` // at its lines, at most changesMost

	Key   Mark           `json:"key"`
	Place Mark           `json:"place"`
	Rare  [rareMost]Mark `json:"rare"`
}

// Like identifies incidents that are like another.
type Like struct {
	Key   Mark `json:"key"`
	Place Mark `json:"place"`
}

// Like returns the identity that similar incidents share.
func (i *Incident) Like() Like { return Like{i.Key, i.Place} }

// Matches reports whether an incident is like another. It is if the strangest token of the other
// is its strangest or a rare one, or if both strangest tokens have the same place.
func (l Like) Matches(i *Incident) bool {
	return l.Key != 0 && (l.Key == i.Key || slices.Contains(i.Rare[:], l.Key)) ||
		l.Place != 0 && l.Place == i.Place
}

// News reports whether the incident's last line, of probability p, is worth a report. It is if
// the line opened or closed the incident, made it stranger, or added a sample or a change. It
// also is if the number of lines has doubled again.
func (i *Incident) News(p float64) bool {
	n := len(i.Changes)
	return i.Closed || i.Lines <= samplesMost || i.Lines&(i.Lines-1) == 0 || p == i.P ||
		n > 0 && i.Changes[n-1].Line == i.Last
}

// alike reports whether a line has the incident's strangest token in its place, or the token of
// one of its surges.
func (i *Incident) alike(l *Line) bool {
	return slices.Contains(l.Marks, i.Key) || slices.ContainsFunc(i.Changes, func(c Change) bool {
		return c.Token != 0 && slices.Contains(l.Marks, c.Token)
	})
}

// Open reports whether lines may still join the incident.
func (i *Incident) Open() bool { return i.Number > 0 && !i.Closed }
