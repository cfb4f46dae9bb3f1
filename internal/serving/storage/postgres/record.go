package postgres

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/lmserve/lmserve/internal/serving/storage"
)

// columns is a record as a row of the table records, without the session and the offset.
type columns struct {
	ms       int64
	bits     float64
	baseline *float64 // nil if the record has no baseline
	byLine   bool
	skipped  []byte // Record.Skipped, two bytes per line, little-endian
	words    []byte // the fields of Record.Words in their order, little-endian; may be nil
	text     []byte
	// continued is Record.Continued. It is nil for 0, because rows older than the column have null.
	continued *int64
}

func columnsOf(r *storage.Record) columns {
	c := columns{ms: r.UnixMS, bits: r.Bits, byLine: r.ByLine, text: r.Text}
	if r.HasBaseline {
		c.baseline = &r.Baseline
	}
	for _, line := range r.Skipped {
		c.skipped = binary.LittleEndian.AppendUint16(c.skipped, line)
	}
	if r.Words != nil {
		// cannot fail, because Words has a fixed size
		c.words, _ = binary.Append(nil, binary.LittleEndian, r.Words)
	}
	if r.Continued != 0 {
		c.continued = &r.Continued
	}
	return c
}

func (c *columns) record() (r storage.Record, err error) {
	r = storage.Record{UnixMS: c.ms, Bits: c.bits, ByLine: c.byLine, Text: c.text}
	if c.baseline != nil {
		r.HasBaseline, r.Baseline = true, *c.baseline
	}
	if c.continued != nil {
		r.Continued = *c.continued
	}
	if len(c.skipped)%storage.SkippedBytes != 0 {
		return r, fmt.Errorf("the list of unlearned lines has %d bytes, expected a multiple of %d",
			len(c.skipped), storage.SkippedBytes)
	}
	for at := 0; at < len(c.skipped); at += storage.SkippedBytes {
		r.Skipped = append(r.Skipped, binary.LittleEndian.Uint16(c.skipped[at:]))
	}
	if c.words != nil {
		if len(c.words) != storage.WordsBytes {
			return r, fmt.Errorf("the word counts have %d bytes, expected %d",
				len(c.words), storage.WordsBytes)
		}
		r.Words = new(storage.Words)
		if _, err := binary.Decode(c.words, binary.LittleEndian, r.Words); err != nil {
			return r, err
		}
	}
	return r, nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum returns the checksum of a record at an offset. It includes the length before each part
// of variable size, so that different records give different bytes.
func (c *columns) checksum(at int64) int64 {
	b := binary.LittleEndian.AppendUint64(nil, uint64(at))
	b = binary.LittleEndian.AppendUint64(b, uint64(c.ms))
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(c.bits))
	if c.baseline != nil {
		b = binary.LittleEndian.AppendUint64(append(b, 1), math.Float64bits(*c.baseline))
	}
	if c.byLine {
		b = append(b, 2)
	}
	if c.continued != nil {
		b = binary.LittleEndian.AppendUint64(append(b, 3), uint64(*c.continued))
	}
	for _, part := range [][]byte{c.skipped, c.words} {
		b = append(binary.LittleEndian.AppendUint32(b, uint32(len(part))), part...)
	}
	return int64(crc32.Update(crc32.Checksum(b, castagnoli), castagnoli, c.text))
}

// batch has the columns of several records, one slice per column. The SQL function unnest turns the
// slices into rows.
type batch struct {
	at, ms               []int64
	bits                 []float64
	baseline             []*float64
	byLine               []bool
	skipped, words, text [][]byte
	crc                  []int64
	continued            []*int64
	end                  int64
}

func newBatch(at int64, records []storage.Record) *batch {
	b := &batch{end: at}
	for i := range records {
		c := columnsOf(&records[i])
		b.at, b.ms, b.bits = append(b.at, b.end), append(b.ms, c.ms), append(b.bits, c.bits)
		b.baseline, b.byLine = append(b.baseline, c.baseline), append(b.byLine, c.byLine)
		b.skipped, b.words = append(b.skipped, c.skipped), append(b.words, c.words)
		b.text, b.crc = append(b.text, c.text), append(b.crc, c.checksum(b.end))
		b.continued = append(b.continued, c.continued)
		b.end += int64(len(c.text))
	}
	return b
}
