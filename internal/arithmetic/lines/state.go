package lines

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// ErrState says that bytes are not the state of a meter.
var ErrState = errors.New("no state of a meter of lines")

// stateVersion is the first byte of a state. It changes with the layout, and with every change by
// which a meter would go on to other probabilities.
const stateVersion = 1

// StateBytesMax is more than any state has.
const StateBytesMax = 96 << 10

// AppendState appends the meter's state to dst: the version, the numbers in their order, little
// endian, then the text of the line under way and the costs of its bytes.
func (m *Meter) AppendState(dst []byte) []byte {
	dst = append(dst, stateVersion)
	for _, number := range m.numbers() {
		dst = appendNumber(dst, number)
	}
	return appendNumber(append(dst, m.text...), m.costs)
}

func appendNumber(dst []byte, number any) []byte {
	dst, err := binary.Append(dst, binary.LittleEndian, number)
	if err != nil {
		panic("lines: " + err.Error()) // the number's type has no fixed size
	}
	return dst
}

// ReadState returns the meter whose state AppendState appended to nothing. An error wraps ErrState
// and says what was found and what was expected.
func ReadState(state []byte) (*Meter, error) {
	m := NewMeter()
	if len(state) == 0 || state[0] != stateVersion {
		return nil, fmt.Errorf("%w: found the first bytes %x, expected version %d", ErrState,
			state[:min(1, len(state))], stateVersion)
	}
	rest := state[1:]
	for _, number := range m.numbers() {
		n, err := binary.Decode(rest, binary.LittleEndian, number)
		if err != nil {
			return nil, fmt.Errorf("%w: found %d bytes, expected more", ErrState, len(state))
		}
		rest = rest[n:]
	}
	if m.line.Bytes < 0 || m.line.Chars < 0 || m.line.Chars > m.line.Bytes {
		return nil, fmt.Errorf("%w: found a line of %d bytes and %d characters", ErrState,
			m.line.Bytes, m.line.Chars)
	}
	kept := int(min(m.line.Bytes, TextMax))
	if len(rest) != kept*5 {
		return nil, fmt.Errorf("%w: found %d bytes of text and costs, expected %d", ErrState,
			len(rest), kept*5)
	}
	m.text = append(m.text, rest[:kept]...)
	m.costs = make([]float32, kept)
	if _, err := binary.Decode(rest[kept:], binary.LittleEndian, m.costs); err != nil {
		return nil, fmt.Errorf("%w: costs: %w", ErrState, err)
	}
	m.derive()
	return m, m.check()
}

// numbers lists pointers to all of the state that has a fixed size and is not derived.
func (m *Meter) numbers() []any {
	e := &m.expectation
	list := []any{
		&m.line.Number, &m.line.Offset, &m.line.Bytes, &m.line.Chars,
		&m.line.Bits, &m.line.Baseline, &m.expected,
		&e.places, &e.fields, &e.all, &e.at.context, &e.at.word, &e.at.before,
	}
	for _, x := range []*excess{&m.overall, &m.local} {
		list = append(list, &x.ending.from, &x.ending.sum, &x.best.from, &x.best.to, &x.best.sum)
	}
	for _, g := range []*gauge{&m.whole, &m.part} {
		list = append(list, &g.lengths.all, &g.lengths.classes)
		list = append(list, &g.tail.counts, &g.tail.weight, &g.tail.last)
	}
	return list
}

// derive sets what follows from the rest of the state.
func (m *Meter) derive() {
	m.line.Cut = m.line.Bytes > TextMax
	for _, x := range []*excess{&m.overall, &m.local} {
		x.bytes, x.ending.to = m.line.Bytes, m.line.Bytes
	}
	for _, g := range []*gauge{&m.whole, &m.part} {
		g.tail.lines = m.line.Number - 1
	}
}

// check reports the first part of a state that no meter has.
func (m *Meter) check() error {
	for _, c := range []struct {
		name string
		ok   bool
	}{
		{"the line's number", m.line.Number >= 1},
		{"the line's offset", m.line.Offset >= m.line.Number-1},
		{"the line's bits", amount(m.line.Bits) && amount(m.line.Baseline) && amount(m.expected)},
		{"the line's text", plain(m.text, m.costs)},
		{"the place in the line", m.expectation.at.context <= contextMask},
		{"the strangest span", m.overall.valid() && m.local.valid()},
		{"the average of all bytes", m.expectation.all.valid(dearest, allMemory)},
		{"the averages of places", m.expectation.valid()},
		{"the averages of fields", valid(m.expectation.fields[:], dearest, fieldMemory)},
		{"the gauge of lines", m.whole.valid()},
		{"the gauge of parts", m.part.valid()},
	} {
		if !c.ok {
			return fmt.Errorf("%w: %s: found numbers out of their range", ErrState, c.name)
		}
	}
	return nil
}

// amount reports whether v can be a sum of costs.
func amount(v float64) bool { return v >= 0 && !math.IsInf(v, 0) }

// plain reports whether text and costs can be those of a line under way.
func plain(text []byte, costs []float32) bool {
	for i, b := range text {
		if b == '\n' || !amount(float64(costs[i])) {
			return false
		}
	}
	return true
}

func (e *excess) valid() bool {
	return 0 <= e.ending.from && e.ending.from <= e.bytes && amount(e.ending.sum) &&
		0 <= e.best.from && e.best.from <= e.best.to && e.best.to <= e.bytes && amount(e.best.sum)
}

func (a *average) valid(most float64, memory uint16) bool {
	return amount(float64(a.Mean)) && float64(a.Mean) <= most && a.Seen <= memory
}

func valid(averages []average, most float64, memory uint16) bool {
	for i := range averages {
		if !averages[i].valid(most, memory) {
			return false
		}
	}
	return true
}

func (g *gauge) valid() bool {
	t := &g.tail
	for _, count := range t.counts {
		if !amount(count) {
			return false
		}
	}
	return 1 <= t.weight && t.weight < lineMemory*lighter && 0 <= t.last && t.last <= t.lines &&
		g.lengths.all.Seen >= firstRaws && g.lengths.all.valid(math.MaxFloat32, lengthMemory) &&
		valid(g.lengths.classes[:], math.MaxFloat32, lengthMemory)
}

func (e *expectation) valid() bool {
	if e.all.Seen < firstCosts {
		return false
	}
	for i := range e.places {
		if !e.places[i].average.valid(dearest, placeMemory) {
			return false
		}
	}
	return true
}
