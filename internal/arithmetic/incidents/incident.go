// Package incidents groups the strange lines of a text into incidents, so that lines that belong
// together give one report.
//
// A Tracker takes the lines of a text in order, each with the probability of its rating and its
// tokens. A strange line, or a change, opens an incident. A line joins an open incident if it has
// the incident's strangest token in the same place, even when that token has become usual. A
// strange line also joins the incident if it directly follows the incident's last line, or shares a
// rare token with the incident. An incident closes when no line has joined it for a while, or when
// its lines have become usual.
//
// The tracker counts in lines, not in time, so that incidents depend on the text alone.
package incidents

import "slices"

// Strange is the maximum probability of a line that opens or joins an incident. Callers can
// filter further by Incident.P.
const Strange = 1. / 100

const (
	// adjacent is a number of lines. A strange line this close to an incident's last line joins the
	// incident, like the lines of a stack trace.
	adjacent = 1
	// quiet is the number of lines after which an incident closes, if none of them joins it.
	quiet = 200
	// stays is the number of lines of an incident after which such lines count as usual. The
	// incident then closes.
	stays = 500

	// Kept is the number of incidents that a tracker remembers, open or closed.
	Kept = 32

	rareMost    = 8  // maximum rare tokens that are kept of an incident's first line
	samplesMost = 3  // maximum lines of an incident that are kept as text
	changesMost = 4  // maximum changes of an incident that are kept
	around      = 64 // maximum lines from an incident to a change or rare token that joins it
	// SampleBytes is the maximum size, in bytes, of a line kept as text.
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
	Lines  int64    `json:"lines,omitzero"`  // if the token is rare: number of earlier lines
}

// Line is a line of the text.
type Line struct {
	Number int64 // number of the line, from 1
	Offset int64 // offset in the text of the line's first byte
	// probability that an ordinary line is at least as strange; 1 while the rating warms up
	P     float64
	Text  []byte
	Key   Mark       // mark of the token that Why describes
	Place Mark       // mark of that token's place, or Key if the token is rare in any place
	Why   func() Why // called if the line opens an incident
	Marks []Mark     // marks of all parts of the line
	Rare  []Mark     // marks of the rare parts of the line
	// Changes are the changes at the line; read-only.
	Changes []Change
}

// Change is a change that a line shows: a surge, a silence, a novelty, a number outside its past,
// or another kind of package changes.
type Change struct {
	Key      Mark   `json:"key"`            // identifies the word, number or template that changed
	Token    Mark   `json:"token,omitzero"` // lines with this token join a surge's incident
	Kind     string `json:"kind"`
	Line     int64  `json:"line"`     // number of the line that reports the change
	First    int64  `json:"first"`    // number of the line at which the change began
	Evidence string `json:"evidence"` // the change, described in a sentence
}

// Incident is a group of strange lines and changes that belong together.
type Incident struct {
	Number  int64   `json:"number"`  // number of the incident in the text, from 1
	First   int64   `json:"first"`   // number of its first line
	Last    int64   `json:"last"`    // number of its last line so far
	Offset  int64   `json:"offset"`  // offset in the text of its first line
	Lines   int64   `json:"lines"`   // number of its lines
	Strange int64   `json:"strange"` // number of its lines whose P is at most the constant Strange
	P       float64 `json:"p"`       // least P of its lines; 1 if it has only changes
	Closed  bool    `json:"closed,omitzero"`
	Stays   bool    `json:"stays,omitzero"` // closed because its lines are usual now

	Why Why `json:"why"`
	// Samples holds the beginnings of its first lines, in order.
	Samples [samplesMost]string `json:"samples"`
	Changes []Change            `json:"changes,omitzero"` // the first changes at its lines

	Key   Mark           `json:"key"`
	Place Mark           `json:"place"`
	Rare  [rareMost]Mark `json:"rare"`
}

// Like identifies all incidents that are like a given one.
type Like struct {
	Key   Mark `json:"key"`
	Place Mark `json:"place"`
}

// Like returns the identity that similar incidents share.
func (i *Incident) Like() Like { return Like{i.Key, i.Place} }

// Matches reports whether an incident is like the one that l identifies. They are alike if their
// strangest tokens have the same place. They are also alike if the strangest token of l is the
// strangest or a rare token of the incident.
func (l Like) Matches(i *Incident) bool {
	return l.Key != 0 && (l.Key == i.Key || slices.Contains(i.Rare[:], l.Key)) ||
		l.Place != 0 && l.Place == i.Place
}

// News reports whether the incident's last line, of probability p, is worth a report. A line is
// worth a report in these cases: it opened or closed the incident, made it stranger, or added a
// sample or a change; or the incident's number of lines has reached the next power of two.
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
