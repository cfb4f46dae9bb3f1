package lines

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/lmserve/lmserve/internal/arithmetic/changes"
	"github.com/lmserve/lmserve/internal/arithmetic/incidents"
)

// ErrState reports bytes that are not the state of a meter.
var ErrState = errors.New("not the state of a line meter")

// stateVersion is the first byte of a state. It must change with the layout, and with every change
// of the code that makes a meter compute other probabilities.
const stateVersion = 5

// earlierVersion is the version of states in which each set of words has a single cell.
const earlierVersion = 4

// withTrouble is a bit of the first byte of the state of a meter with words of trouble.
const withTrouble = 0x80

// StateBytesMax is larger than the size, in bytes, of any state.
const StateBytesMax = 168<<10 + changes.StateBytesMax + incidents.StateBytesMax

// AppendState appends the meter's state to dst. The state consists of these parts, in order:
//
//   - the version;
//   - with words of trouble, the size and text of their list;
//   - the numeric fields, little endian;
//   - the incidents and the state of the changes, each after its size;
//   - the text of the open line and the costs of its bytes.
func (m *Meter) AppendState(dst []byte) []byte {
	if list := m.TroubleWords(); list != "" {
		dst = append(dst, stateVersion|withTrouble)
		dst = append(appendNumber(dst, uint32(len(list))), list...)
	} else {
		dst = append(dst, stateVersion)
	}
	for _, number := range m.numbers() {
		dst = appendNumber(dst, number)
	}
	incidents, err := m.incidents.MarshalText()
	if err != nil {
		panic("lines: " + err.Error()) // cannot happen: every field can be encoded as JSON
	}
	dst = append(appendNumber(dst, uint32(len(incidents))), incidents...)
	changes := m.changes.AppendState(nil)
	dst = append(appendNumber(dst, uint32(len(changes))), changes...)
	return appendNumber(append(dst, m.text...), m.costs)
}

func appendNumber(dst []byte, number any) []byte {
	dst, err := binary.Append(dst, binary.LittleEndian, number)
	if err != nil {
		panic("lines: " + err.Error()) // cannot happen: the types of all numbers have a fixed size
	}
	return dst
}

// ReadState returns the meter whose AppendState wrote the state. An error wraps ErrState and says
// what was found and what was expected.
func ReadState(state []byte) (*Meter, error) {
	m := NewMeter()
	version := byte(0)
	if len(state) > 0 {
		version = state[0] &^ withTrouble
	}
	if version != stateVersion && version != earlierVersion {
		return nil, fmt.Errorf("%w: the first byte is %x, expected version number %d or %d",
			ErrState, state[:min(1, len(state))], earlierVersion, stateVersion)
	}
	rest := state[1:]
	var err error
	if state[0]&withTrouble != 0 {
		if rest, err = readSized(rest, m.readTrouble); err != nil {
			return nil, err
		}
	}
	if rest, err = m.readNumbers(version, rest); err != nil {
		return nil, err
	}
	if rest, err = m.readParts(rest); err != nil {
		return nil, err
	}
	if m.line.Bytes < 0 || m.line.Chars < 0 || m.line.Chars > m.line.Bytes {
		return nil, fmt.Errorf("%w: found a line of %d bytes and %d characters, expected 0 or "+
			"more, and at most one character per byte", ErrState,
			m.line.Bytes, m.line.Chars)
	}
	kept := int(min(m.line.Bytes, TextMax))
	if len(rest) != kept*5 {
		return nil, fmt.Errorf("%w: found %d bytes for the line's text and the cost of each of "+
			"its bytes, expected %d", ErrState, len(rest), kept*5)
	}
	m.text = append(m.text, rest[:kept]...)
	m.costs = make([]float32, kept)
	if _, err := binary.Decode(rest[kept:], binary.LittleEndian, m.costs); err != nil {
		return nil, fmt.Errorf("%w: costs: %w", ErrState, err)
	}
	m.derive()
	return m, m.check()
}

func (m *Meter) readNumbers(version byte, rest []byte) ([]byte, error) {
	numbers, cells := m.numbers(), &m.rating.words.cells
	var earlier [raritySets]counted
	if version == earlierVersion {
		numbers[slices.Index(numbers, any(cells))] = &earlier
	}
	for _, number := range numbers {
		n, err := binary.Decode(rest, binary.LittleEndian, number)
		if err != nil {
			return nil, fmt.Errorf("%w: found %d bytes for the next numbers, expected more",
				ErrState, len(rest))
		}
		rest = rest[n:]
	}
	if version == earlierVersion {
		for set, c := range earlier {
			cells[set*setWords] = c
		}
	}
	return rest, nil
}

func (m *Meter) readParts(rest []byte) ([]byte, error) {
	for _, read := range []func([]byte) error{
		m.incidents.UnmarshalText,
		func(state []byte) error {
			d, err := changes.ReadState(state)
			if err == nil {
				m.changes = *d
			}
			return err
		},
	} {
		var err error
		if rest, err = readSized(rest, read); err != nil {
			return nil, err
		}
	}
	return rest, nil
}

// readSized reads a size, and then the part of the state with this size by calling read. It returns
// the remaining bytes.
func readSized(rest []byte, read func([]byte) error) ([]byte, error) {
	size := uint32(0)
	n, err := binary.Decode(rest, binary.LittleEndian, &size)
	if err != nil || int64(size) > int64(len(rest)-n) {
		return nil, fmt.Errorf("%w: found %d bytes, expected more", ErrState, len(rest))
	}
	if err := read(rest[n : n+int(size)]); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrState, err)
	}
	return rest[n+int(size):], nil
}

func (m *Meter) readTrouble(list []byte) error {
	want, err := TroubleWords(string(list))
	if err == nil && want != string(list) {
		err = fmt.Errorf("found the trouble words %.80q, expected %.80q", list, want)
	}
	m.Trouble(want)
	return err
}

// numbers returns pointers to the numbers of the state, except the numbers that derive computes.
func (m *Meter) numbers() []any {
	r := &m.rating
	list := []any{
		&m.line.Number, &m.line.Offset, &m.line.Bytes, &m.line.Chars,
		&m.line.Bits, &m.line.Baseline,
		&r.words.cells, &r.crowds.Crowds, &r.crowds.Used, &r.crowds.Radius, &r.places.cells,
		&r.values.All, &r.values.Frames,
	}
	for _, t := range r.tails() {
		list = append(list, &t.counts, &t.weight, &t.last)
	}
	if r.trouble.list != "" {
		list = append(list, &r.trouble.seen)
	}
	return list
}

func (r *Rating) tails() []*tail { return []*tail{&r.b, &r.e, &r.w, &r.sum} }

// derive computes the numbers that follow from the rest of the state.
func (m *Meter) derive() {
	m.line.Cut = m.line.Bytes > TextMax
	seen := m.line.Number - 1
	m.rating.words.lines, m.rating.crowds.Lines = seen, seen
	for _, t := range m.rating.tails() {
		t.lines = seen
	}
}

// check returns an error for the first part of the state with numbers out of their range.
func (m *Meter) check() error {
	r := &m.rating
	for _, c := range []struct {
		name string
		ok   bool
	}{
		{"the line's number", m.line.Number >= 1},
		{"the line's offset", m.line.Offset >= m.line.Number-1},
		{"the line's bits", amount(m.line.Bits) && amount(m.line.Baseline)},
		{"the line's text", plain(m.text, m.costs)},
		{"the words", !slices.ContainsFunc(r.words.cells[:], counted.wrong)},
		{"the crowds", r.crowds.valid()},
		{"the places", !slices.ContainsFunc(r.places.cells[:], standing.wrong)},
		{"the values", r.values.valid()},
		{"the words of trouble", r.trouble.seen.valid(troubleMemory)},
		{"the tails", !slices.ContainsFunc(r.tails(), func(t *tail) bool { return !t.valid() })},
	} {
		if !c.ok {
			return fmt.Errorf("%w: %s: found numbers out of their range", ErrState, c.name)
		}
	}
	return nil
}

// amount reports whether v can be a sum of costs: not negative, and finite.
func amount(v float64) bool { return v >= 0 && !math.IsInf(v, 0) }

// plain reports whether text and costs can belong to an open line.
func plain(text []byte, costs []float32) bool {
	for i, b := range text {
		if b == '\n' || !amount(float64(costs[i])) {
			return false
		}
	}
	return true
}

// wrong accepts more lines than the text has: words of one line with the same hash count the line
// several times.
func (c counted) wrong() bool {
	return c.Seen > wordWear || (c.Lines == 0) != (c.Seen == 0)
}

func (c *crowds) valid() bool {
	if c.Used < 0 || c.Used > crowdsMost || !amount(c.Radius) || c.Radius > 16*farNew*crowdNumbers {
		return false
	}
	for i := range c.Crowds[:c.Used] {
		of := &c.Crowds[i]
		if of.Count < 1 || int64(of.Count) > c.Lines || of.Last < 1 || of.Last > c.Lines ||
			of.Middle.wrong() {
			return false
		}
	}
	return true
}

func (v *vector) wrong() bool {
	most := roots[crowdSumMost]
	return slices.ContainsFunc(v[:], func(x int16) bool { return x > most || x < -most })
}

func (c standing) wrong() bool {
	sum := 0
	for _, count := range c.Counts {
		sum += int(count)
	}
	return c.Seen > placeWear || c.N > placeSeenMost || c.Total >= placeTotal ||
		sum > int(c.Total) ||
		!(c.News >= 0 && c.News <= 1)
}

func (a *amongAlike) valid() bool {
	for i := range a.Frames {
		if f := &a.Frames[i]; f.Seen > frameWear || !f.valid(frameMemory) {
			return false
		}
	}
	return a.All.valid(framesMemory)
}

func (h *histogram) valid(memory float32) bool {
	for _, c := range h.Counts {
		if !(c >= 0 && c <= memory) {
			return false
		}
	}
	return h.N >= 0 && h.N <= memory
}

func (t *tail) valid() bool {
	for _, count := range t.counts {
		if !amount(count) {
			return false
		}
	}
	return 1 <= t.weight && t.weight < lineMemory*lighter && 0 <= t.last && t.last <= t.lines
}
