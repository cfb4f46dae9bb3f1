// Package incidents groups the strange lines of a text into incidents, so that related lines give
// one report.
//
// A Tracker reads the lines of a text in order, with their probabilities and tokens. A strange
// line, or a change, opens an incident. A line joins an open incident if it contains the incident's
// strangest token in the place where that token was strange. A strange line also joins if it
// directly follows the incident's last line, or shares a rare token with the incident. An incident
// closes when no line has joined for a while, or when its lines have become usual.
//
// The tracker counts in lines, not in time, so that incidents depend on the text alone.
package incidents

import "slices"

// Strange is the maximum probability of a strange line. Callers can select fewer incidents by
// Incident.P.
const Strange = 1. / 100

const (
	// adjacent is the maximum distance in lines at which a strange line joins an incident by
	// position alone. The lines of a stack trace are an example.
	adjacent = 1
	// quiet is the number of lines after which an incident closes if none of these lines joins it.
	quiet = 200
	// stays is the number of lines at which an incident closes, because lines that are so frequent
	// count as usual.
	stays = 500

	// Kept is the number of incidents that a tracker remembers, open or closed.
	Kept = 32

	rareMost    = 8
	samplesMost = 3
	changesMost = 4
	// The maximum number of lines between an incident and a later change or rare token that joins.
	around = 64
	// SampleBytes is the maximum number of stored bytes of a line's text.
	SampleBytes = 160
)

// Mark identifies a word either at a certain place or at any place.
type Mark uint64

// Why explains why a line is strange.
type Why struct {
	Before string   `json:"before,omitzero"` // the word before the strangest token
	Token  string   `json:"token,omitzero"`  // the strangest token of the line
	Usual  []string `json:"usual,omitzero"`  // usual tokens at the place of Token; read-only
	Rare   bool     `json:"rare,omitzero"`   // true if Token is rare at every place
	Lines  int64    `json:"lines,omitzero"`  // number of earlier lines, if Token is rare
}

// Line is a line of the text, with its rating and its tokens' marks.
type Line struct {
	Number int64 // number of the line, from 1
	Offset int64 // byte offset of the line in the text
	// probability that an ordinary line is at least as strange; 1 while unknown
	P    float64
	Text []byte
	Key  Mark // mark of the token that Why describes
	// Mark of the place of Why's token. It equals Key if the token is rare at every place.
	Place Mark
	Why   func() Why // explains the line; called only if the line opens an incident
	Marks []Mark
	Rare  []Mark
	// Changes are the changes that this line reports; read-only.
	Changes []Change
}

// Change is a change that a line reports, such as a surge, a silence, a novelty or an unusual
// number. Package changes lists all kinds.
type Change struct {
	Key      Mark   `json:"key"`            // identifies the word, number or template that changed
	Token    Mark   `json:"token,omitzero"` // for a surge: lines with this token join the incident
	Kind     string `json:"kind"`
	Line     int64  `json:"line"`
	First    int64  `json:"first"`    // number of the line at which the change began
	Evidence string `json:"evidence"` // the change, described in a sentence
}

// Incident is a group of related strange lines and changes.
type Incident struct {
	Number  int64   `json:"number"` // number of the incident in the text, from 1
	First   int64   `json:"first"`
	Last    int64   `json:"last"`
	Offset  int64   `json:"offset"` // byte offset at which the first line begins in the text
	Lines   int64   `json:"lines"`
	Strange int64   `json:"strange"` // number of lines whose P is at most the constant Strange
	P       float64 `json:"p"`       // minimum P of the strange lines; 1 without strange lines
	Closed  bool    `json:"closed,omitzero"`
	Stays   bool    `json:"stays,omitzero"` // true if closed because the lines became usual

	Why Why `json:"why"`
	// Samples contains the beginnings of the incident's first lines, in order.
	Samples [samplesMost]string `json:"samples"`
	Changes []Change            `json:"changes,omitzero"`

	Key   Mark           `json:"key"`
	Place Mark           `json:"place"`
	Rare  [rareMost]Mark `json:"rare"`
}

// Like identifies all incidents that are similar to a given incident.
type Like struct {
	Key   Mark `json:"key"`
	Place Mark `json:"place"`
}

// Like returns the identity that similar incidents share.
func (i *Incident) Like() Like { return Like{i.Key, i.Place} }

// Matches reports whether an incident is similar to the incident that l identifies. Incidents are
// similar if their strangest tokens have the same place. They are also similar if the strangest
// token of l is the strangest token or a rare token of i.
func (l Like) Matches(i *Incident) bool {
	return l.Key != 0 && (l.Key == i.Key || slices.Contains(i.Rare[:], l.Key)) ||
		l.Place != 0 && l.Place == i.Place
}

// News reports whether the incident's last line, of probability p, is worth a report. A line is
// worth a report if it opened or closed the incident, made the incident stranger, or added a sample
// or a change. A line is also worth a report if the incident's number of lines has reached a power
// of two.
func (i *Incident) News(p float64) bool {
	n := len(i.Changes)
	return i.Closed || i.Lines <= samplesMost || i.Lines&(i.Lines-1) == 0 || p == i.P ||
		n > 0 && i.Changes[n-1].Line == i.Last
}

// alike reports whether a line contains the incident's strangest token at its place, or the token
// of one of the incident's surges.
func (i *Incident) alike(l *Line) bool {
	return slices.Contains(l.Marks, i.Key) || slices.ContainsFunc(i.Changes, func(c Change) bool {
		return c.Token != 0 && slices.Contains(l.Marks, c.Token)
	})
}

// Open reports whether further lines can join the incident.
func (i *Incident) Open() bool { return i.Number > 0 && !i.Closed }
