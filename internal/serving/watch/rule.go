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

// RateDefault is the default threshold. A line is shown if an ordinary line is at least as strange
// with at most this probability.
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
		return 0, fmt.Errorf("%q, expected a probability above 0 and at most 1, such as "+
			"1/1000 or 0.001",
			text)
	}
	return p, nil
}

// StandsOut reports whether a line is strange: whether its probability P is at most the threshold.
// It returns false for blank lines, and for all lines before the session has seen enough lines to
// rate them.
func StandsOut(l *client.LineEvent, threshold float64) bool {
	return l.Warm && l.P <= threshold && !blank(l)
}

// Worth reports whether an incident is worth showing. A user's verdict on this incident or on
// similar incidents decides. Without a verdict, an incident with a change is worth showing. An
// incident whose probability P is at most the threshold is worth showing, too.
func Worth(i *client.Incident, threshold float64) bool {
	if i.Verdict != nil {
		return *i.Verdict == client.VerdictMatters
	}
	return i.P <= threshold || len(i.Changes) > 0
}

// blank reports whether a line has only white space. It returns false if the text is not complete.
func blank(l *client.LineEvent) bool {
	whole := l.Cut == nil || !*l.Cut
	return whole && l.Text != nil && len(bytes.TrimSpace(l.TextBytes())) == 0
}

// Found is a line and its source.
type Found struct {
	Source string
	Line   client.LineEvent
}

// Top keeps the Size strangest lines.
type Top struct {
	Size  int
	lines []Found // sorted by P; lines with equal P are in order of arrival
}

// Add adds a line if it is among the Size strangest lines so far.
func (t *Top) Add(f Found) {
	if t.Size == 0 || !f.Line.Warm || blank(&f.Line) || len(t.lines) == t.Size &&
		f.Line.P >= t.lines[t.Size-1].Line.P {
		return
	}
	at, _ := slices.BinarySearchFunc(t.lines, f, func(have, f Found) int {
		// The new line comes after older lines that are equally strange.
		return cmp.Or(cmp.Compare(have.Line.P, f.Line.P), -1)
	})
	t.lines = slices.Insert(t.lines, at, f)
	t.lines = t.lines[:min(len(t.lines), t.Size)]
}

// Lines returns the strangest lines so far, the strangest first.
func (t *Top) Lines() []Found { return t.lines }
