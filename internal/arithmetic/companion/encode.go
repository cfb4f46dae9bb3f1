package companion

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
)

// Version identifies the arithmetic of a state and its encoding. It changes when a number in the
// state changes its meaning.
const Version = 2

// header is the beginning of an encoded state. The complete table, text, words and floats follow
// the header. All numbers are little endian.
type header struct {
	Version  uint8
	Networks uint8
	TableLog uint8 // base-2 logarithm of the table's size in bytes
	Place    place
}

// EncodedBytes returns the number of bytes that AppendTo appends for a state with these settings.
func EncodedBytes(set Settings) int64 { return int64(binary.Size(header{})) + Bytes(set) }

// AppendTo appends the encoded state to data. Decode reads this form.
func (s *State) AppendTo(data []byte) []byte {
	for _, part := range s.parts() {
		var err error
		if data, err = binary.Append(data, binary.LittleEndian, part); err != nil {
			panic(err) // impossible, since all parts have a fixed size
		}
	}
	return data
}

// ReadAt implements io.ReaderAt for the bytes that AppendTo appends. The state must not change
// between calls, or the bytes read are inconsistent.
func (s *State) ReadAt(b []byte, at int64) (n int, err error) {
	begin := int64(0)
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

// copyPart encodes a part of the state and copies the encoded bytes from offset `at` to b. It
// returns the number of copied bytes.
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
		panic(err)
	}
	return copy(b, data[at:])
}

// copyWords encodes n 32-bit numbers and copies the encoded bytes from offset `at` to b. It returns
// the number of copied bytes.
func copyWords(b []byte, at int64, n int, word func(i int64) uint32) (copied int) {
	var bytes [4]byte
	for end := 4 * int64(n); copied < len(b) && at < end; {
		binary.LittleEndian.PutUint32(bytes[:], word(at/4))
		k := copy(b[copied:], bytes[at%4:])
		copied, at = copied+k, at+int64(k)
	}
	return copied
}

func (s *State) parts() []any {
	h := header{
		Version: Version, Networks: uint8(s.settings.Networks),
		TableLog: uint8(bits.TrailingZeros(uint(s.settings.TableBytes))), Place: s.place,
	}
	return []any{h, []uint8(s.table), s.text, s.words, s.floats}
}

// Decode returns the state that AppendTo encoded. The settings must be valid and equal the settings
// of the state. An error contains the expected value, the value found and its position. Decode
// accepts data from an untrusted source: it checks that all numbers are in range, so that Scratch
// can use every accepted state.
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

// Check returns an error for the first number that no text can produce. Such a number is out of
// range, or it is not finite because a network returned invalid probabilities.
func (s *State) Check() error {
	if err := s.check(); err != nil {
		return fmt.Errorf("companion: %w", err)
	}
	return nil
}

// take decodes a part from the beginning of data and returns the remaining data. It panics if data
// is too short.
func take(data []byte, part any) (rest []byte) {
	n, err := binary.Decode(data, binary.LittleEndian, part)
	if err != nil {
		panic(err)
	}
	return data[n:]
}

// check is Check without the package name in its errors.
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
			return fmt.Errorf("refinement %d is %v, expected a probability, 0 to 1", i, p)
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
			return fmt.Errorf("match %d has length %d and %d misses, expected a length of at "+
				"most %d and at most %d misses",
				i, m.Length, m.Misses, matchMost, matchMisses)
		}
	}
	return nil
}
