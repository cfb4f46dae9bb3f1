package changes

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// Kind is the kind of a change.
type Kind uint8

// The kinds of changes.
const (
	Surge   Kind = iota + 1 // a word, template or shape that occurs far more often than before
	Novelty                 // a frequent template or shape that never occurred before
	Number                  // a number far above all earlier numbers at its place
	Silence                 // a word, template or shape that occurred regularly and stopped
	// a slow rise of the share of a word or template, or a slow change in the size of numbers
	Drift
	Empty    // a value that was always present and is now NaN, null, - or missing
	NewField // a field name that never occurred before
	NoField  // a field that every line had and that is now missing
	Format   // most lines have new separators
)

// String returns the kind as a word.
func (k Kind) String() string {
	return [...]string{
		"", "surge", "novelty", "number", "silence", "drift", "empty", "field", "missing", "format",
	}[k]
}

// Change is a change in a log, with the counts that prove it.
type Change struct {
	Kind    Kind
	Subject Subject
	Line    int64 // number of the line that reports the change, from 1
	First   int64 // number of the change's first line; for a silence, the line after the last event
	// Text is the word or number that changed. For a template or shape, Text is the line after its
	// time stamp. For a silence, Text is the beginning of the silent line, or the silent word with
	// the word before it. Text is empty if the detector has not kept the silent text.
	Text     string
	From, To int    // bounds in the line; both 0 for a whole line or a silence
	Before   string // the last plain word before Text; empty for a whole line or a silence
	Template uint32 // template of the reporting line; 0 for a silence
	Score    float64

	// For surges and novelties: the key occurred `Count` times among the last `Length` words at its
	// place. Before that, it occurred `Had` times among the `Of` words that the detector remembers.
	// For templates and shapes, lines are counted instead of words.
	Count, Length, Had, Of int64
	// For numbers: Value is the number, and Largest is the largest of the `Of` earlier numbers. For
	// a clock that jumps: Value is the step in seconds, and Largest is the largest earlier step in
	// the same direction.
	Value, Largest float64
	// For drifts: the share of the key, or the geometric mean of the numbers. Usual is the value
	// before the drift, Now the value during the drift.
	Usual, Now float64
	// For silences: the mean gap and the current gap, both in lines. If the log has time stamps,
	// the next fields give both gaps as durations and the time of day of the key's last line.
	EveryLines, SilentLines int64
	Timed                   bool
	Every, Silent, Since    time.Duration
}

const shownBytes = 200 // maximum number of bytes of a line that a Change contains

func (d *Detector) changeOf(l *line, kind Kind, of event) *Change {
	c := &Change{
		Kind: kind, Subject: of.subject, Line: l.n, First: l.n, Template: l.template,
		Text:   shown(l.text[of.from:min(of.to, of.from+shownBytes)]),
		Before: shown(l.text[of.said[0]:of.said[1]]),
	}
	if of.subject < Template {
		c.From, c.To = of.from, of.to
	}
	return c
}

// shown returns text for display, without the separators that follow a time stamp.
func shown(b []byte) string {
	return strings.TrimLeft(strings.TrimSpace(strings.ToValidUTF8(string(b), "")), "\t ]):;,|")
}

func (d *Detector) surgeOf(l *line) *Change {
	s := &l.surge
	kind := Surge
	if s.key.Subject >= Template && s.key.Before < .5 {
		kind = Novelty
	}
	c := d.changeOf(l, kind, s.of)
	c.Score = s.score
	c.First = l.n - int64(uint32(l.n)-s.key.Began)
	c.Count, c.Length = int64(s.key.Count), int64(s.key.Length)+1
	c.Of = min(int64(s.c)-c.Length, clockMemory)
	c.Had = min(int64(math.Round(float64(s.key.Before))), c.Of)
	return c
}

func (d *Detector) numberOf(l *line) *Change {
	o := &l.outlier
	c := d.changeOf(l, Number, o.of)
	c.Score, c.Value, c.Largest, c.Of = o.score, o.value, o.largest, int64(o.values)
	return c
}

func (d *Detector) silenceOf(l *line, e *key, t int64) *Change {
	c := &Change{Kind: Silence, Subject: e.Subject, Line: l.n, Text: shown(d.textOf(e))}
	c.SilentLines = int64(uint32(l.n) - e.Line)
	c.First = l.n - c.SilentLines + 1
	if d.clock.Pace > 0 {
		c.EveryLines = int64(math.Round(float64(e.Mean) / d.clock.Pace))
	}
	if c.Timed = d.clock.Stamps == 1; c.Timed {
		silent := int64(uint32(t) - e.Beat)
		since := ((d.clock.Day-silent)%dayMillis + dayMillis) % dayMillis
		c.Every = time.Duration(e.Mean) * time.Millisecond
		c.Silent, c.Since = time.Duration(silent)*time.Millisecond,
			time.Duration(since)*time.Millisecond
	}
	return c
}

func (d *Detector) driftOf(l *line) *Change {
	s := &l.drift
	c := d.changeOf(l, Drift, s.of)
	c.Score, c.Length = s.score, int64(s.Since)*driftTicks
	c.Usual, c.Now = float64(s.Mean), float64(s.now())
	if s.numbers() {
		c.Usual, c.Now = pow2(c.Usual), pow2(c.Now)
	} else {
		c.Usual, c.Now = c.Usual/driftTicks, c.Now/driftTicks
	}
	return c
}

func (d *Detector) formatOf(l *line) *Change {
	return &Change{
		Kind: Format, Subject: Shape, Line: l.n, First: l.n, Template: l.template,
		Usual: float64(d.format.Slow), Now: float64(d.format.Fast), Length: formatRecent,
	}
}

// String describes the change in a sentence.
func (c *Change) String() string {
	switch c.Kind {
	case Number:
		if c.Subject >= Ahead {
			return c.jump()
		}
		return fmt.Sprintf("%s: the largest of %s before is %s", c.name(), humanize.Comma(c.Of),
			short(c.Largest))
	case Format:
		return fmt.Sprintf("the format changed: lines of new shapes %s %% before, %s %% of the "+
			"last %d",
			short(100*c.Usual), short(100*c.Now), c.Length)
	case Empty:
		what := "a value"
		if c.Subject == Level {
			what = "a number"
		}
		return fmt.Sprintf("%s: %s all %s times before", c.name(), what, humanize.Comma(c.Of))
	case NewField:
		return fmt.Sprintf("new field %s: in none of %s lines before", c.Text, humanize.Comma(c.Of))
	case NoField:
		return fmt.Sprintf("field %s is missing: there %s times in a row before", c.Text,
			humanize.Comma(c.Of))
	case Drift:
		if c.Subject == Level {
			return fmt.Sprintf("%s: about %s before, %s in the last %s", c.name(), short(c.Usual),
				short(c.Now), humanize.Comma(c.Length))
		}
		return fmt.Sprintf("%s: %s %% before, %s %% of the last %s%s", c.name(), short(100*c.Usual),
			short(100*c.Now), humanize.Comma(c.Length), c.unit())
	case Silence:
		name := c.name()
		if c.Text == "" {
			name = "lines that came regularly"
		}
		if c.Timed {
			return fmt.Sprintf("%s: every %s, silent since %s", name, rounded(c.Every),
				clockTime(c.Since))
		}
		return fmt.Sprintf("%s: every %s lines, none in the last %s", name,
			humanize.Comma(c.EveryLines), humanize.Comma(c.SilentLines))
	}
	return fmt.Sprintf("%s: %s of %s%s, then %s of %s", c.name(), humanize.Comma(c.Had),
		humanize.Comma(c.Of), c.unit(), humanize.Comma(c.Count), humanize.Comma(c.Length))
}

func (c *Change) jump() string {
	direction := "ahead of"
	if c.Subject == Back {
		direction = "behind"
	}
	return fmt.Sprintf("time %s: %s %s the line before; the largest earlier difference was "+
		"%s", c.Text,
		seconds(c.Value), direction, seconds(c.Largest))
}

func seconds(s float64) time.Duration { return rounded(time.Duration(s * float64(time.Second))) }

func (c *Change) name() string {
	text := c.Text
	switch {
	case c.Kind == Empty && text == "":
		text = "empty"
	case c.Kind == Empty:
	case c.Kind == Silence && c.Subject < Template:
		return fmt.Sprintf("%q", text)
	case c.Subject >= Template:
		const most = 80
		if len(text) > most {
			text = strings.ToValidUTF8(text[:most], "") + "..."
		}
		return fmt.Sprintf("lines like %q", text)
	case c.Subject == Level && c.Kind == Drift:
		text = "numbers"
		if c.Before != "" {
			return c.Before
		}
	case c.Subject == Level && c.Kind != Number:
		text = "near " + text
	}
	return strings.TrimSpace(c.Before + " " + text)
}

func (c *Change) unit() string {
	if c.Subject >= Template {
		return " lines"
	}
	return ""
}

func rounded(d time.Duration) time.Duration { return d.Round(100 * time.Millisecond) }

// short formats a number below 100 with three significant digits, and a larger number as an
// integer.
func short(v float64) string {
	if v >= 100 {
		return humanize.Comma(int64(math.Round(v)))
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

func clockTime(d time.Duration) string {
	return time.Time{}.Add(d).Format(time.TimeOnly)
}
