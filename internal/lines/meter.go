package lines

import "bytes"

// Meter makes lines of a text and says how strange they are. Its memory is bounded: about 45 KB
// with a line of TextMax bytes or more under way. One goroutine uses it at a time.
type Meter struct {
	expectation expectation
	lengths     lengths
	tail        tail

	// The line under way.
	line   Line // all but Strangeness, Text and Costs
	excess excess
	text   []byte
	costs  []float32
}

// NewMeter returns the meter of an empty text.
func NewMeter() *Meter {
	return &Meter{expectation: newExpectation(), lengths: newLengths(), tail: newTail(), line: Line{Number: 1}}
}

// Add takes in the next byte of the text, with its cost under the model that learns and under the
// static one, in bits: finite numbers, 0 or more. If the byte ends a line, the line goes to each,
// which must not keep it. The cost of a token of several bytes belongs to its first byte.
func (m *Meter) Add(b byte, bits, baseline float64, each func(*Line)) {
	m.excess.add(bits, m.expectation.next(b, bits))
	m.line.Bytes++
	m.line.Bits += bits
	m.line.Baseline += baseline
	if b&0xc0 != 0x80 {
		m.line.Chars++
	}
	if b == '\n' {
		m.finish(each)
	} else if len(m.text) < TextMax {
		m.text = append(m.text, b)
		m.costs = append(m.costs, float32(bits))
	}
}

// End declares that the text ends. A last line without a newline goes to each. What is added
// afterwards begins a line.
func (m *Meter) End(each func(*Line)) {
	if m.line.Bytes > 0 {
		m.finish(each)
		m.expectation.context = contextNew
	}
}

// Pending is the number of bytes of the line under way.
func (m *Meter) Pending() int64 { return m.line.Bytes }

// Seen is the number of lines so far, without the one under way.
func (m *Meter) Seen() int64 { return m.tail.lines }

// Clone returns a meter that goes on as m would.
func (m *Meter) Clone() *Meter {
	c := *m
	c.text, c.costs = bytes.Clone(m.text), append([]float32(nil), m.costs...)
	return &c
}

// finish ends the line under way, rates it, and lets the tail take it in.
func (m *Meter) finish(each func(*Line)) {
	raw := m.excess.raw()
	score := m.lengths.level(m.line.Bytes, raw)
	p := m.tail.p(score)
	line := m.line
	line.Strangeness = Strangeness{
		P: p, Score: score, From: m.excess.from, To: m.excess.to, Excess: m.excess.best, Seen: m.tail.lines,
	}
	line.Text, line.Costs = m.text, m.costs
	m.lengths.add(m.line.Bytes, raw)
	m.tail.add(score, p)
	m.line = Line{Number: line.Number + 1, Offset: line.Offset + line.Bytes}
	m.excess, m.text, m.costs = excess{}, m.text[:0], m.costs[:0]
	if each != nil {
		each(&line)
	}
}
