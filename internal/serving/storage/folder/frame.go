package folder

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"math/bits"

	"github.com/lmserve/lmserve/internal/serving/storage"
)

// Sizes within a segment, in bytes.
const (
	frameHead   = 8 + 4 + 4 + 4
	frameTail   = 4
	lengthBytes = 4
	recordMin   = 1 + 8 + 8 // the bytes of the flags, the time and the bits
	sectorBytes = 512       // the unit in which disks write

	// segmentBytes is the length from which a segment is full: a full segment gets no more frames.
	segmentBytes = 1 << 20
	// fileBytes limits the size of a head or a segment in an archive, because each is read into
	// memory as a whole.
	fileBytes = 32 << 20
)

// The flags of a record say which optional parts it has. These parts follow the time and the bits,
// in the order of the flags.
const (
	hasBaseline = 1 << iota
	hasWords
	hasContinued
	byLine
	knownFlags = 1<<iota - 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func appendRecord(b []byte, r *storage.Record) []byte {
	from := len(b)
	b = append(b, make([]byte, lengthBytes+1)...)
	flags := byte(0)
	put := func(v uint64) { b = binary.LittleEndian.AppendUint64(b, v) }
	put(uint64(r.UnixMS))
	put(math.Float64bits(r.Bits))
	if r.HasBaseline {
		flags |= hasBaseline
		put(math.Float64bits(r.Baseline))
	}
	if r.Words != nil {
		flags |= hasWords
		// the write cannot fail, because Words has a fixed size
		b, _ = binary.Append(b, binary.LittleEndian, r.Words)
	}
	if r.Continued != 0 {
		flags |= hasContinued
		put(uint64(r.Continued))
	}
	if r.ByLine {
		flags |= byLine
		b = binary.LittleEndian.AppendUint32(b, uint32(len(r.Skipped)))
		for _, n := range r.Skipped {
			b = binary.LittleEndian.AppendUint16(b, n)
		}
	}
	b = append(b, r.Text...)
	b[from+lengthBytes] = flags
	binary.LittleEndian.PutUint32(b[from:], uint32(len(b)-from-lengthBytes))
	return b
}

// frameOf encodes the records of one call of Append as a frame. at is the offset of the first
// record in the log.
func frameOf(at int64, records []storage.Record) []byte {
	b := make([]byte, frameHead)
	for i := range records {
		b = appendRecord(b, &records[i])
	}
	size := uint32(len(b) - frameHead)
	b = binary.LittleEndian.AppendUint32(b, size)
	binary.LittleEndian.PutUint64(b, uint64(at))
	binary.LittleEndian.PutUint32(b[8:], size)
	binary.LittleEndian.PutUint32(b[12:], crc32.Checksum(b[:12], castagnoli))
	binary.LittleEndian.PutUint32(b[16:], crc32.Checksum(b[frameHead:], castagnoli))
	return b
}

// frame is a decoded frame of the log, with valid checksums.
type frame struct {
	at   int64
	body []byte
	size int64 // the length in the file, in bytes
}

// frameBegins reads the head of the frame at the beginning of b. at is the frame's offset in the
// log. all is the frame's length in bytes. verifies reports whether the head's checksum is right.
func frameBegins(b []byte) (at, all int64, verifies bool) {
	if len(b) < frameHead {
		return 0, 0, false
	}
	at, all = int64(binary.LittleEndian.Uint64(b)), int64(binary.LittleEndian.Uint32(b[8:]))
	verifies = crc32.Checksum(b[:12], castagnoli) == binary.LittleEndian.Uint32(b[12:])
	return at, frameHead + all + frameTail, verifies
}

// nextFrame returns the index in b of the first valid frame whose log offset is at least offset. If
// b has no such frame, nextFrame returns len(b).
func nextFrame(b []byte, offset int64) int {
	for n := range b {
		if at, _, begins := frameBegins(b[n:]); begins && at >= offset {
			if _, err := readFrame(b[n:]); err == nil {
				return n
			}
		}
	}
	return len(b)
}

func readFrame(b []byte) (frame, error) {
	if len(b) < frameHead {
		return frame{}, fmt.Errorf("the file ends within a frame: %d bytes, expected %d or more",
			len(b), frameHead)
	}
	at, all, verifies := frameBegins(b)
	if !verifies {
		return frame{}, fmt.Errorf("the checksum of a frame's beginning is %08x, expected %08x",
			binary.LittleEndian.Uint32(b[12:]), crc32.Checksum(b[:12], castagnoli))
	}
	if int64(len(b)) < all {
		return frame{}, fmt.Errorf("the file ends within a frame: %d bytes, expected %d", len(b),
			all)
	}
	size := all - frameHead - frameTail
	covered := b[frameHead:all]
	if have, want := crc32.Checksum(covered, castagnoli),
		binary.LittleEndian.Uint32(b[16:]); have != want {
		return frame{}, fmt.Errorf("the checksum of a frame's body is %08x, expected "+
			"%08x", want, have)
	}
	if again := int64(binary.LittleEndian.Uint32(b[all-frameTail:])); again != size {
		return frame{}, fmt.Errorf("a frame has the size %d at its beginning and %d at its "+
			"end, expected equal sizes", size, again)
	}
	return frame{at, b[frameHead : all-frameTail], all}, nil
}

// each calls visit for the records of a frame. The texts of the records share memory with the
// frame.
func (f frame) each(visit func(at int64, r storage.Record) error) error {
	at, rest := f.at, f.body
	for len(rest) > 0 {
		size := int64(0)
		if len(rest) >= lengthBytes {
			size = int64(binary.LittleEndian.Uint32(rest))
		}
		if size < recordMin || size > int64(len(rest)-lengthBytes) {
			return fmt.Errorf("a record has the length %d in a frame with %d bytes left, "+
				"expected at least %d, and no more than are left", size, len(rest),
				recordMin)
		}
		r, err := decodeRecord(rest[lengthBytes:][:size])
		if err != nil {
			return err
		}
		if err := visit(at, r); err != nil {
			return err
		}
		at, rest = at+int64(len(r.Text)), rest[lengthBytes+size:]
	}
	return nil
}

// decodeRecord decodes a record. The record's text shares memory with b.
func decodeRecord(b []byte) (r storage.Record, err error) {
	flags, rest := b[0], b[1:]
	if flags&^knownFlags != 0 {
		return r, fmt.Errorf("a record has the flags %02x, expected only flags in "+
			"%02x", flags, knownFlags)
	}
	take := func(n int64) []byte {
		if int64(len(rest)) < n {
			err, rest = fmt.Errorf("a record of %d bytes ends before its last field", len(b)), nil
			return make([]byte, n)
		}
		taken := rest[:n]
		rest = rest[n:]
		return taken
	}
	number := func() uint64 { return binary.LittleEndian.Uint64(take(8)) }
	r.UnixMS, r.Bits = int64(number()), math.Float64frombits(number())
	if r.HasBaseline = flags&hasBaseline != 0; r.HasBaseline {
		r.Baseline = math.Float64frombits(number())
	}
	if flags&hasWords != 0 {
		r.Words = new(storage.Words)
		// Decode returns no error for a struct of numbers and enough bytes.
		_, _ = binary.Decode(take(storage.WordsBytes), binary.LittleEndian, r.Words)
	}
	if flags&hasContinued != 0 {
		r.Continued = int64(number())
	}
	if r.ByLine = flags&byLine != 0; r.ByLine {
		count := int64(binary.LittleEndian.Uint32(take(4)))
		skipped := take(min(count, storage.SkippedMax) * storage.SkippedBytes)
		for i := 0; i < len(skipped); i += storage.SkippedBytes {
			r.Skipped = append(r.Skipped, binary.LittleEndian.Uint16(skipped[i:]))
		}
		if count > storage.SkippedMax && err == nil {
			err = fmt.Errorf("a record has %d lines that are not learned, which is more than "+
				"allowed", count)
		}
	}
	r.Text = rest
	if n := len(rest); err == nil && (n < 1 || n > storage.MaxTextBytes) {
		err = fmt.Errorf("a text has %d bytes, expected 1 to %d", n, storage.MaxTextBytes)
	}
	if err == nil {
		err = r.CheckSkipped()
	}
	return r, err
}

// torn reports whether a power cut can explain an invalid frame at the end of the last segment.
// If so, the frame was never acknowledged and may be dropped. rest is the segment from the frame
// on. The frame begins at byte begin of the file, and at the given offset of the log. A power cut
// can explain the frame if no valid frame follows, and one of these conditions holds:
//   - The file ends within the frame.
//   - A sector of the frame reads as zeros, because it was never written. If the head of the frame
//     is invalid, the sector must be in the head.
//
// The zeros with which the frame begins because of its offset, and ends because of its size, show
// nothing about a sector.
func torn(rest []byte, begin, offset int64) bool {
	at, all, verifies := frameBegins(rest)
	size := int64(len(rest))
	first := int64(bits.TrailingZeros64(uint64(offset)) / 8)
	switch {
	case size < frameHead:
		return true
	case !verifies:
		return unwritten(rest, begin, first, frameHead) && nextFrame(rest, offset) == len(rest)
	case at != offset || size > all:
		return false
	}
	last := size - int64(bits.LeadingZeros32(uint32(all-frameHead-frameTail))/8)
	return size < all || unwritten(rest, begin, first, last)
}

// unwritten reports whether a disk sector with some of the frame's bytes in [first,last) reads as
// zeros, as if the disk had not written it. rest begins with the frame, which is at byte begin of
// the file. Bytes of a sector outside the frame are ignored.
func unwritten(rest []byte, begin, first, last int64) bool {
	for at := int64(0); at < last; {
		end := min(int64(len(rest)), at+sectorBytes-(begin+at)%sectorBytes)
		if end > first && len(bytes.Trim(rest[at:end], "\x00")) == 0 {
			return true
		}
		at = end
	}
	return false
}
