package companion

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
)

// Version identifies the arithmetic and the encoding of a state: the meaning of every number in
// it.
const Version = 2

// header begins an encoded state. The table, the text, the words and the floats follow, in full.
// All numbers are little endian.
type header struct {
	Version  uint8
	Networks uint8
	TableLog uint8 // the table has 1<<TableLog bytes
	Place    place
}

// EncodedBytes returns the number of bytes that AppendTo appends for a state with these settings.
func EncodedBytes(set Settings) int64 { return int64(binary.Size(header{})) + Bytes(set) }

// AppendTo appends the state in the form that Decode reads.
func (s *State) AppendTo(data []byte) []byte {
	for _, part := range s.parts() {
		var err error
		if data, err = binary.Append(data, binary.LittleEndian, part); err != nil {
			panic(err) // all parts have a fixed size
		}
	}
	return data
}

// ReadAt implements io.ReaderAt: it reads the bytes that AppendTo appends. The state must not
// change meanwhile.
func (s *State) ReadAt(b []byte, at int64) (n int, err error) {
	begin := int64(0) // offset of a part in the encoded state
	for _, part := range s.parts() {
		size := int64(binary.Size(part))
		if at+int64(n) < begin+size && n < len(b) {
			n += copyPart(b[n:], part, at+int64(n)-begin)
		}
		begin += size
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// copyPart encodes a part and copies its bytes from offset `at` on to b. It returns the number of
// copied bytes, at most len(b).
func copyPart(b []byte, part any, at int64) int {
	switch p := part.(type) {
	case []uint8:
		return copy(b, p[at:])
	case []uint32:
		return copyWords(b, at, len(p), func(i int64) uint32 { return p[i] })
	case []float32:
		return copyWords(b, at, len(p), func(i int64) uint32 { return math.Float32bits(p[i]) })
	}
	data, err := binary.Append(nil, binary.LittleEndian, part)
	if err != nil {
		panic(err) // all parts have a fixed size
	}
	return copy(b, data[at:])
}

// copyWords is copyPart for n numbers of four bytes each.
func copyWords(b []byte, at int64, n int, word func(i int64) uint32) (copied int) {
	var bytes [4]byte
	for end := 4 * int64(n); copied < len(b) && at < end; {
		binary.LittleEndian.PutUint32(bytes[:], word(at/4))
		k := copy(b[copied:], bytes[at%4:])
		copied, at = copied+k, at+int64(k)
	}
	return copied
}

// parts returns all parts of a state, in the order of the encoded form.
func (s *State) parts() []any {
	h := header{
		Version: Version, Networks: uint8(s.settings.Networks),
		TableLog: uint8(bits.TrailingZeros(uint(s.settings.TableBytes))), Place: s.place,
	}
	return []any{h, []uint8(s.table), s.text, s.words, s.floats}
}

// Decode returns the state that AppendTo has written. set must be valid and equal the settings of
// the state. An error says which number was found where, and what was expected. Scratch can use
// every accepted state, even from an untrusted source: all numbers are in range.
func Decode(set Settings, data []byte) (*State, error) {
	if found, want := int64(len(data)), EncodedBytes(set); found != want {
		return nil, fmt.Errorf("companion: the state has %d bytes, expected %d", found, want)
	}
	var h header
	rest := take(data, &h)
	want := header{Version, uint8(set.Networks),
		uint8(bits.TrailingZeros(uint(set.TableBytes))), h.Place}
	if h != want {
		return nil, fmt.Errorf("companion: the state is of version %d, for %d networks, with a "+
			"table "+
			"of 2^%d bytes; expected version %d, %d networks and 2^%d bytes", h.Version, h.Networks,
			h.TableLog, want.Version, want.Networks, want.TableLog)
	}
	s := New(set)
	s.place = h.Place
	for _, part := range s.parts()[1:] {
		rest = take(rest, part)
	}
	if err := s.Check(); err != nil {
		return nil, err
	}
	return s, nil
}

// Check returns an error for the first number that no text can produce: a number out of its range,
// or one that is not finite because a network returned no distribution.
func (s *State) Check() error {
	if err := s.check(); err != nil {
		return fmt.Errorf("companion: %w", err)
	}
	return nil
}

// take decodes a part from the beginning of the data, which must be long enough. It returns the
// rest.
func take(data []byte, part any) (rest []byte) {
	n, err := binary.Decode(data, binary.LittleEndian, part)
	if err != nil {
		panic(err) // all parts have a fixed size, and the data is long enough
	}
	return data[n:]
}

// check is Check without the package's name in the error.
func (s *State) check() error {
	if err := s.place.check(); err != nil {
		return err
	}
	for i, b := range s.table {
		if i%bucketBytes != 0 && b >= historyCount {
			return fmt.Errorf("byte %d of the table is %d, expected the code of a bit history, "+
				"less than %d",
				i, b, historyCount)
		}
	}
	for i := mapsAt; i < matchesEnd; i += estimateFloats {
		if err := checkEstimate(s.floats[i : i+estimateFloats]); err != nil {
			return fmt.Errorf("estimate %d: %w", i/estimateFloats, err)
		}
	}
	for i, w := range s.floats[weightsAt:refinesAt] {
		if !(w >= -weightMost && w <= weightMost) {
			return fmt.Errorf("weight %d is %v, expected an absolute value of at most "+
				"%d", i, w, weightMost)
		}
	}
	for i, p := range s.floats[refinesAt:] {
		if !(p >= 0 && p <= 1) {
			return fmt.Errorf("probability %d of the refinement is %v, expected 0 to 1", i, p)
		}
	}
	return nil
}

const (
	weightMost   = 1 << 20 // far above any weight in practice
	estimateMost = 10      // far above the logit of any estimate
)

func checkEstimate(e []float32) error {
	p, l, n := e[estimateP], e[estimateLogit], e[estimateCount]
	switch {
	case !(p > 0 && p < 1):
		return fmt.Errorf("the probability is %v, expected a number above 0 and below 1", p)
	case !(l >= -estimateMost && l <= estimateMost):
		return fmt.Errorf("the logit is %v, expected an absolute value of at most "+
			"%d", l, estimateMost)
	case !(n >= 0 && n <= countMost):
		return fmt.Errorf("the count is %v, expected 0 to %d", n, countMost)
	}
	return nil
}

// check returns an error if numbers of the place contradict each other.
func (p *place) check() error {
	if p.Bytes > 1<<62 || uint64(p.Column) > p.Bytes || uint64(p.Width) > p.Bytes {
		return errors.New("found a line that is longer than the text")
	}
	for i := range p.Matches {
		m := &p.Matches[i]
		switch {
		case m.At == 0 && *m != match{}:
			return fmt.Errorf("match %d has a length but no position, expected both or neither", i)
		case m.At != 0 && !reachable(m.At, p.Bytes):
			return fmt.Errorf("match %d is at position %d, expected one of the last %d of %d "+
				"positions",
				i, m.At, textBytes, p.Bytes)
		case m.Length > matchMost || m.Misses > matchMisses:
			return fmt.Errorf("match %d has length %d and %d misses, expected at most length %d "+
				"and %d misses",
				i, m.Length, m.Misses, matchMost, matchMisses)
		}
	}
	return nil
}
