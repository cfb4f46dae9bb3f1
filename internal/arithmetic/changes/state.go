package changes

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// ErrState reports bytes that are not the state of a detector.
var ErrState = errors.New("not the state of a change detector")

// stateVersion is the first byte of an encoded state. Increase it when the layout changes, or when
// a code change makes a detector report different changes.
const stateVersion = 2

// StateBytesMax is an upper bound of the size of an encoded state.
const StateBytesMax = 128 << 10

// AppendState appends the detector's encoded state to dst: the version, then all numbers in
// little-endian order.
func (d *Detector) AppendState(dst []byte) []byte {
	dst = append(dst, stateVersion)
	for _, number := range d.numbersOf() {
		var err error
		if dst, err = binary.Append(dst, binary.LittleEndian, number); err != nil {
			panic("changes: " + err.Error()) // only possible if the number's type has no fixed size
		}
	}
	return dst
}

// ReadState decodes a state that AppendState has written. Its errors wrap ErrState and contain the
// expected and the found value.
func ReadState(state []byte) (*Detector, error) {
	d := New()
	if len(state) == 0 || state[0] != stateVersion {
		return nil, fmt.Errorf("%w: the first byte is %x, expected version number %d", ErrState,
			state[:min(1, len(state))], stateVersion)
	}
	rest := state[1:]
	for _, number := range d.numbersOf() {
		n, err := binary.Decode(rest, binary.LittleEndian, number)
		if err != nil {
			return nil, fmt.Errorf("%w: found %d bytes, expected more", ErrState, len(state))
		}
		rest = rest[n:]
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("%w: found %d bytes, expected %d", ErrState, len(state),
			len(state)-len(rest))
	}
	if err := d.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrState, err)
	}
	return d, nil
}

func (d *Detector) numbersOf() []any {
	return []any{
		&d.n, &d.clock, &d.surges, &d.numbers, &d.driftsTold,
		&d.empties, &d.fieldsTold, &d.format, &d.due,
		&d.surgeQuiet, &d.numberQuiet, &d.driftQuiet, &d.emptyQuiet,
		&d.fieldQuiet, &d.silenceTold,
		&d.keys, &d.places, &d.texts, &d.drifts, &d.fields,
	}
}

func (d *Detector) check() error {
	for _, c := range []struct {
		name string
		ok   bool
	}{
		{"the number of lines", d.n >= 0},
		{"the clock", d.clock.valid(d.n)},
		{"the threshold of surges", d.surges.valid(surgeLimits)},
		{"the threshold of numbers", d.numbers.valid(numberLimits)},
		{"the threshold of drifts", d.driftsTold.valid(driftLimits)},
		{"the threshold of empty values", d.empties.valid(emptyLimits)},
		{"the threshold of fields", d.fieldsTold.valid(fieldLimits)},
		{"the format", d.format.valid(d.n)},
		{"when a silence is due", d.due >= 0},
		{"the lines until which surges are quiet", d.soon(d.surgeQuiet)},
		{"the lines until which numbers are quiet", d.soon(d.numberQuiet)},
		{"the lines until which drifts are quiet", 0 <= d.driftQuiet &&
			d.driftQuiet <= d.n+driftQuiet},
		{"the lines until which empty values are quiet", d.soon(d.emptyQuiet)},
		{"the lines until which fields are quiet", d.soon(d.fieldQuiet)},
		{"the line of the last silence", 0 <= d.silenceTold && d.silenceTold <= d.n},
	} {
		if !c.ok {
			return fmt.Errorf("%s: found a number out of its range", c.name)
		}
	}
	for i := range d.keys {
		if e := &d.keys[i]; *e != (key{}) && !e.valid(i/setKeys, d.n) {
			return fmt.Errorf("key %d: found numbers out of their ranges: %+v", i, *e)
		}
	}
	for i := range d.places {
		if p := &d.places[i]; *p != (place{}) && !p.valid(i, d.n) {
			return fmt.Errorf("place %d: found numbers out of their ranges: %+v", i, *p)
		}
	}
	for i := range d.texts {
		if x := &d.texts[i]; *x != (text{}) && !x.valid(i) {
			return fmt.Errorf("text %d: found %q with key %#x, expected the key of this "+
				"text", i, x.Text, x.Tag)
		}
	}
	for i := range d.drifts {
		if c := &d.drifts[i]; *c != (drift{}) && !c.valid(i/driftSet, d.n) {
			return fmt.Errorf("drift %d: found numbers out of their ranges: %+v", i, *c)
		}
	}
	for i := range d.fields {
		if c := &d.fields[i]; *c != (field{}) && !c.valid(i/fieldSet, d.n) {
			return fmt.Errorf("field %d: found numbers out of their ranges: %+v", i, *c)
		}
	}
	return nil
}

// soon reports whether a line number is plausible as the end of a rest, in which nothing is
// reported.
func (d *Detector) soon(line int64) bool { return 0 <= line && line <= d.n+quietLines }

// passed reports whether a line number, modulo 2^32, can be one of the first n lines.
func passed(line uint32, n int64) bool { return int64(uint32(n)-line) < n }

// within reports whether least <= x <= most. It returns false for NaN.
func within[F float32 | float64](x, least, most F) bool { return least <= x && x <= most }

// thresholdMost is an upper bound of a threshold: it exceeds every score plus the raise after its
// report.
const thresholdMost = 1 << 16

func (p *promise) valid(of limits) bool { return within(p.Threshold, of.floor, thresholdMost) }

func (c *clock) valid(n int64) bool {
	return 0 <= c.Time && c.Time/dayMillis <= n && 0 <= c.Day && c.Day < dayMillis &&
		0 <= c.Stamped && c.Stamped <= n && c.Fine <= 1 && c.Stamps <= 1 &&
		0 <= c.Start && c.Start <= c.now(n) &&
		within(c.Pace, 0, dayMillis) && within(c.Longest, 0, dayMillis) &&
		within(c.Ahead, 0, dayMillis) && within(c.Back, 0, dayMillis)
}

func (e *key) valid(set int, n int64) bool {
	const millisMost = 1 << 32
	return e.Tag&1 == 1 && int(home(e.Tag, keySets)) == set &&
		passed(e.Line, n) && passed(e.Began, n) &&
		uint32(e.Length) < e.Clock && within(e.Before, 0, 2*clockMemory) &&
		within(e.Sum, 0, sumMost) &&
		within(e.Mean, 0, millisMost) &&
		within(e.Deviation, 0, millisMost) && within(e.Longest, 0, millisMost) &&
		e.Peak <= sumMost*peakUnits && e.Best <= sumMost*peakUnits && e.Flags <= flagsMost &&
		Word <= e.Subject && e.Subject <= Shape
}

const lgMost = 64

func (p *place) valid(i int, n int64) bool {
	first := int(home(p.Tag, placesMost))
	stands := i >= placesMost && p.Tag == 0 ||
		i < placesMost && p.Tag&1 == 1 && (first == i || (first+1)%placesMost == i)
	for _, r := range p.Repeats {
		if !within(r.Same, 0, 1) || !within(r.Expected, 0, 1) {
			return false
		}
	}
	return stands && p.N > 0 && within(p.First, 0, rivalMost) &&
		within(p.Second, 0, p.First) && (p.Raised == 0 || passed(p.Raised, n)) &&
		(p.Told == 0 || passed(p.Told, n)) &&
		within(p.Level, -lgMost, lgMost) && within(p.Mean, -lgMost, lgMost) &&
		within(p.Deviation, 0, 2*lgMost) && within(p.Largest, 0, math.MaxFloat32) &&
		within(p.Before, 0, math.MaxFloat32) && p.Values < 2*valuesWindow && p.Credit <= creditMost
}

func (c *drift) valid(set int, n int64) bool {
	most := float32(driftTicks)
	least := float32(0)
	if c.numbers() {
		most = lgMost
		least = -most
		if c.Block >= driftTicks {
			return false
		}
	}
	return c.Tag&1 == 1 && int(home(c.Tag, driftSets)) == set && passed(c.Line, n) &&
		within(c.Sum, driftTicks*least, driftTicks*most) && within(c.Mean, least, most) &&
		within(c.Deviation, 0, 2*most) && within(c.S, -driftMost, driftMost) &&
		within(c.Total, driftLong*least, driftLong*most) &&
		within(c.Offs, 0, 2*driftLong*most) && within(c.Trend, -1, 1) &&
		c.Blocks <= driftMemory && c.Since < driftLong
}

func (f *format) valid(n int64) bool {
	return within(f.Fast, 0, 1) && within(f.Slow, 0, 1) && 0 <= f.Told && f.Told <= n
}

func (c *field) valid(set int, n int64) bool {
	return c.Tag&1 == 1 && int(home(c.Tag, fieldSets)) == set && passed(c.Line, n) &&
		(c.First == 0 || passed(c.First, n)) && c.Missed < fieldMisses && c.Count > 0
}

func (x *text) valid(i int) bool {
	end := textBytes
	for end > 0 && x.Text[end-1] == 0 {
		end--
	}
	for _, c := range x.Text[:end] {
		if c == 0 || c == '\n' {
			return false
		}
	}
	return x.Tag&1 == 1 && int(home(x.Tag, textsMost)) == i
}
