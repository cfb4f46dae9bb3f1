package lines

import (
	"bytes"
	"time"

	"github.com/lmserve/lmserve/internal/arithmetic/changes"
	"github.com/lmserve/lmserve/internal/arithmetic/incidents"
)

// MeterBytes is the maximum memory of a meter, in bytes.
const MeterBytes = 140<<10 + changes.StateBytesMax + incidents.StateBytesMax

// Meter divides a text into lines and rates how strange they are. Its memory is bounded: tables of
// 110 KB to rate lines, tables of 127 KB to count changes, the incidents, and the open line. Only
// one goroutine may use it at a time.
type Meter struct {
	rating    Rating
	changes   changes.Detector
	incidents incidents.Tracker

	// line, text and costs describe the open line: the bytes since the last newline.
	line  Line // its Strangeness, Text and Costs are not set
	text  []byte
	costs []float32

	ended   Line
	touched []incidents.Incident
}

// NewMeter returns the meter of an empty text.
func NewMeter() *Meter {
	return &Meter{rating: *NewRating(), changes: *changes.New(), line: Line{Number: 1}}
}

// Trouble makes the meter also rate lines by words that mean trouble, such as "error". The list
// must be a result of the function TroubleWords; "" means no list. The text must still be empty.
func (m *Meter) Trouble(list string) { m.rating.Trouble(list) }

// TroubleWords returns the list of words of trouble that the meter uses, or "" if there is none.
func (m *Meter) TroubleWords() string { return m.rating.trouble.list }

// Add adds the next byte of the text, with its cost in bits under the learning model and under the
// static model. Costs must be finite and not negative. If the byte ends a line, Add passes the line
// to the function `each`; the line is valid during the call. If a token has several bytes, one of
// these bytes has the token's cost, and the rest cost 0.
func (m *Meter) Add(b byte, bits, baseline float64, each func(*Line)) {
	m.line.Bytes++
	m.line.Bits += bits
	m.line.Baseline += baseline
	if b&0xc0 != 0x80 {
		m.line.Chars++
	}
	if len(m.text) < TextMax {
		m.text = append(m.text, b)
		m.costs = append(m.costs, float32(bits))
	} else if b != '\n' {
		m.line.Cut = true
	}
	if b == '\n' {
		m.finish(each)
	}
}

// End ends the text. If the last line has no newline, End passes the line to the function `each`.
// Text added later begins a new line.
func (m *Meter) End(each func(*Line)) {
	if m.line.Bytes > 0 {
		m.finish(each)
	}
}

// Pending returns the number of bytes in the open line.
func (m *Meter) Pending() int64 { return m.line.Bytes }

// Bytes returns the number of bytes in the text so far.
func (m *Meter) Bytes() int64 { return m.line.Offset + m.line.Bytes }

// Seen returns the number of lines that have ended.
func (m *Meter) Seen() int64 { return m.line.Number - 1 }

// Clone returns an independent copy of m.
func (m *Meter) Clone() *Meter {
	c := new(Meter)
	c.CopyFrom(m)
	return c
}

// CopyFrom copies another meter into m. It allocates nothing if the buffers of m have enough
// capacity.
func (m *Meter) CopyFrom(other *Meter) {
	text, costs := append(m.text[:0], other.text...), append(m.costs[:0], other.costs...)
	scratch, touched := m.rating.scratch, m.touched
	*m = *other
	m.text, m.costs, m.ended, m.rating.scratch = text, costs, Line{}, scratch
	m.touched = touched
}

var newline = []byte{'\n'}

func (m *Meter) finish(each func(*Line)) {
	m.ended = m.line
	m.ended.Text = bytes.TrimSuffix(m.text, newline)
	m.ended.Costs = m.costs[:len(m.ended.Text)]
	p, _, from, to := m.rating.Take(m.ended.Text)
	m.ended.Strangeness = Strangeness{
		P: p, From: int64(from), To: int64(to), Seen: m.line.Number - 1,
	}
	m.ended.rating = &m.rating
	m.follow()
	m.line = Line{Number: m.line.Number + 1, Offset: m.line.Offset + m.line.Bytes}
	m.text, m.costs = m.text[:0], m.costs[:0]
	if each != nil {
		each(&m.ended)
	}
}

// follow passes the last line and its changes to the tracker of incidents.
func (m *Meter) follow() {
	l := &m.ended
	m.touched = m.touched[:0]
	p := l.P
	if !l.Warm() {
		p = 1
	}
	var changed []incidents.Change
	m.changes.Take(l.Text, func(c *changes.Change) {
		of := incidents.Change{
			Key: changeKey(c), Kind: c.Kind.String(), Line: c.Line, First: c.First,
			Evidence: clip(c.String()),
		}
		if c.Kind == changes.Surge && c.Subject != changes.Level {
			of.Token = m.rating.scratch.tokens.markAt(l.Text, c.From, c.To)
		}
		changed = append(changed, of)
	})
	if len(changed) > 0 || m.incidents.Watches(p) {
		of := &m.rating.scratch
		m.incidents.Take(&incidents.Line{
			Number: l.Number, Offset: l.Offset, P: p, Text: l.Text, Why: l.Why,
			Key: m.rating.strangest.mark, Place: m.rating.strangest.place, Marks: of.marks,
			Rare:    of.rare,
			Changes: changed,
		}, func(i *incidents.Incident) { m.touched = append(m.touched, *i) })
	}
	if len(m.touched) > 0 {
		l.Incidents = m.touched
	}
}

// changeKey returns a hash that identifies what changed. The values of digits in the changed word
// do not affect the hash.
func changeKey(c *changes.Change) incidents.Mark {
	k := masked([]byte(c.Before)).plus(byte(c.Kind)).plus(byte(c.Subject))
	return incidents.Mark((k ^ masked([]byte(c.Text)).spread()).spread())
}

const evidenceBytes = 160

func clip(sentence string) string {
	sentence = incidents.Plain(sentence)
	if len(sentence) <= evidenceBytes {
		return sentence
	}
	return text([]byte(sentence[:evidenceBytes-len(ellipsis)])) + ellipsis
}

const ellipsis = "…"

// SilentAfter returns the time without a new line after which the silence is unusual, according to
// the timestamps in the lines. It returns false if the lines are too few for an estimate.
func (m *Meter) SilentAfter() (time.Duration, bool) { return m.changes.Due() }

// Incidents returns the remembered incidents of the text, newest first.
func (m *Meter) Incidents() []incidents.Incident { return m.incidents.Incidents() }
