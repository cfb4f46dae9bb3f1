package watch

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lmserve/lmserve/api/client"
)

// RateDefault is the largest probability of a line that is shown.
const RateDefault = "1/1000"

// ParseRate parses a probability: a fraction such as 1/1000, or a decimal number.
func ParseRate(text string) (float64, error) {
	over, under, fraction := strings.Cut(text, "/")
	p, err := strconv.ParseFloat(strings.TrimSpace(over), 64)
	if err == nil && fraction {
		var n float64
		n, err = strconv.ParseFloat(strings.TrimSpace(under), 64)
		p /= n
	}
	if err != nil || !(p > 0 && p <= 1) {
		return 0, fmt.Errorf("%q, expected a probability such as 1/1000 or 0.001, above 0 and "+
			"at most 1",
			text)
	}
	return p, nil
}

// StandsOut reports whether a line is as strange as the threshold. No line is before the session
// has seen enough lines, and no blank line is: it has nothing to look at.
func StandsOut(l *client.LineEvent, threshold float64) bool {
	return l.Warm && l.P <= threshold && !blank(l)
}

// Worth reports whether an incident is worth reporting: if it is strange enough or a change, unless
// a user has given a verdict on similar incidents.
func Worth(i *client.Incident, threshold float64) bool {
	if i.Verdict != nil {
		return *i.Verdict == client.VerdictMatters
	}
	return i.P <= threshold || len(i.Changes) > 0
}

// blank reports whether a line is known to be only white space.
func blank(l *client.LineEvent) bool {
	whole := l.Cut == nil || !*l.Cut
	return whole && l.Text != nil && len(bytes.TrimSpace(l.TextBytes())) == 0
}

// Found is a line of a source.
type Found struct {
	Source string // the name of the source
	Line   client.LineEvent
}

// Top keeps the strangest lines.
type Top struct {
	Size  int
	lines []Found // sorted by P; equal ones in the order of their arrival
}

// Add adds a line.
func (t *Top) Add(f Found) {
	if t.Size == 0 || !f.Line.Warm || blank(&f.Line) || len(t.lines) == t.Size &&
		f.Line.P >= t.lines[t.Size-1].Line.P {
		return
	}
	at, _ := slices.BinarySearchFunc(t.lines, f, func(have, f Found) int {
		// after those that are equally strange
		return cmp.Or(cmp.Compare(have.Line.P, f.Line.P), -1)
	})
	t.lines = slices.Insert(t.lines, at, f)
	t.lines = t.lines[:min(len(t.lines), t.Size)]
}

// Lines returns the strangest lines so far, the strangest first.
func (t *Top) Lines() []Found { return t.lines }
