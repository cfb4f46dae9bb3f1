// Package incidents groups the strange lines of a text into incidents, so that somebody who watches
// the text is told once of what belongs together.
//
// A Tracker takes the lines of a text in their order, each with the probability that its rating
// gave it, and what stands in it. An incident is opened by a line that is strange, or by a change
// of number. Lines join an incident that is open: those in which the incident's strangest token
// stands in the same place, however usual it is by then; and strange lines that follow directly or
// share a rare token. An incident is closed when no line has joined it for a while, or when so many
// have that they are what is usual now.
//
// The tracker counts in lines, not in time, so that incidents depend on the text alone.
package incidents

import "slices"

// Strange is the largest probability of a line that opens or joins an incident. A caller who wants
// to hear of less looks at Incident.P.
const Strange = 1. / 100

const (
	// adjacent is how many lines after the last of an incident a strange line belongs to it,
	// whatever stands in it: as the lines of a stack trace do.
	adjacent = 1
	// quiet is the number of lines without one of an incident after which it is closed.
	quiet = 200
	// stays is the number of an incident's lines after which they are what is usual now.
	stays = 500

	// Kept is how many incidents a tracker remembers, open ones and the last closed ones.
	Kept = 32

	rareMost    = 8  // rare tokens of its first line that an incident is recognised by
	samplesMost = 3  // lines of an incident that are kept as text
	changesMost = 4  // changes of an incident that are kept
	around      = 64 // lines from an incident within which a change belongs to it
	// SampleBytes is the most that is kept of a line as text.
	SampleBytes = 160
)

// Mark names a token in its place, or a word wherever it stands.
type Mark uint64

// Why says why a line is strange.
type Why struct {
	Before string   `json:"before,omitzero"` // the word before the token
	Token  string   `json:"token,omitzero"`  // what stands strangest in the line
	Usual  []string `json:"usual,omitzero"`  // what usually stands there; it is never changed
	Rare   bool     `json:"rare,omitzero"`   // the token is rare wherever it stands
	Lines  int64    `json:"lines,omitzero"`  // that had a rare token before
}

// Line is a line of the text.
type Line struct {
	Number int64 // from 1
	Offset int64 // of its first byte in the text
	// that an ordinary line is at least as strange; 1 in a text that is not known yet
	P     float64
	Text  []byte
	Key   Mark       // of the token that Why is about
	Place Mark       // where it stands, or Key if it is rare wherever it stands
	Why   func() Why // is asked if the line opens an incident
	Marks []Mark     // of all that stands in the line
	Rare  []Mark     // of what is rare in it
	// Changes are what changed in number at the line. They are never changed.
	Changes []Change
}

// Change is something that changed in number: a surge, a silence, a novelty, or a number outside
// its past.
type Change struct {
	Key      Mark   `json:"key"`            // of what changed
	Token    Mark   `json:"token,omitzero"` // whose lines belong to a surge
	Kind     string `json:"kind"`
	Line     int64  `json:"line"`     // at which it is told
	First    int64  `json:"first"`    // at which it began
	Evidence string `json:"evidence"` // as a sentence
}

// Incident is what belongs together.
type Incident struct {
	Number  int64   `json:"number"`  // of the incidents of the text, from 1
	First   int64   `json:"first"`   // number of its first line
	Last    int64   `json:"last"`    // and of its last one so far
	Offset  int64   `json:"offset"`  // in the text, of the first line's first byte
	Lines   int64   `json:"lines"`   // that belong to it
	Strange int64   `json:"strange"` // of these, with a P of Strange or less
	P       float64 `json:"p"`       // the least of its lines; 1 if it is a change alone
	Closed  bool    `json:"closed,omitzero"`
	Stays   bool    `json:"stays,omitzero"` // closed because its lines are usual now

	Why Why `json:"why"`
	// beginnings of its lines, the first of them first
	Samples [samplesMost]string `json:"samples"`
	Changes []Change            `json:"changes,omitzero"` // at its lines, changesMost at most

	Key   Mark           `json:"key"`
	Place Mark           `json:"place"`
	Rare  [rareMost]Mark `json:"rare"`
}

// Like is what incidents are recognised by that are like another.
type Like struct {
	Key   Mark `json:"key"`
	Place Mark `json:"place"`
}

// Like is what others like the incident have.
func (i *Incident) Like() Like { return Like{i.Key, i.Place} }

// Matches reports whether an incident is like another: what is strange in that one is strangest, or
// rare, in this one, too, or stands in the same place as this one's.
func (l Like) Matches(i *Incident) bool {
	return l.Key != 0 && (l.Key == i.Key || slices.Contains(i.Rare[:], l.Key)) ||
		l.Place != 0 && l.Place == i.Place
}

// News reports whether the incident has more to tell at its last line, of probability p, than that
// one more line has joined it: it was opened or closed, has become stranger or got a sample or a
// change, or the number of its lines has doubled again.
func (i *Incident) News(p float64) bool {
	n := len(i.Changes)
	return i.Closed || i.Lines <= samplesMost || i.Lines&(i.Lines-1) == 0 || p == i.P ||
		n > 0 && i.Changes[n-1].Line == i.Last
}

// alike reports whether a line has the incident's strangest token in its place, or that of a surge.
func (i *Incident) alike(l *Line) bool {
	return slices.Contains(l.Marks, i.Key) || slices.ContainsFunc(i.Changes, func(c Change) bool {
		return c.Token != 0 && slices.Contains(l.Marks, c.Token)
	})
}

// Open reports whether lines may still join the incident.
func (i *Incident) Open() bool { return i.Number > 0 && !i.Closed }
