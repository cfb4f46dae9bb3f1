// Package intake reads the bodies that log shippers send: bytes in, lines out, with the name of the
// stream that each belongs to. It knows no sessions and no HTTP.
package intake

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"strings"
)

// Limits on what a body may have.
const (
	RecordBytesMax = 1 << 20 // of one record in JSON, or of a resource, of which values are made
	DepthMax       = 32      // of values within each other
	ValuesMax      = 1 << 13 // objects and arrays of a record of OTLP in JSON
	StreamsMax     = 1 << 10 // of one body
)

// Error says where a body is not what it should be.
type Error struct {
	Byte  int    // of the body, decompressed, about where the fault is
	Where string // e.g. "record 3"; "" is the whole body
	What  string // e.g. "a string was expected"
}

func (e *Error) Error() string {
	where := ""
	if e.Where != "" {
		where = e.Where + ", "
	}
	return fmt.Sprintf("%sbyte %d of the body: %s", where, e.Byte, e.What)
}

// Batch is what a body has, by streams.
type Batch struct {
	Streams []*Stream // in the order in which the body names them
	Records int
	Refused int    // records that no line was made of
	Why     string // the first of them was refused; "" if none was

	byName map[string]*Stream
}

// Stream are the lines of one stream of a body, in order.
type Stream struct {
	Name    string
	Text    []byte // each line with its newline
	Records int

	origins hash.Hash // of the records, and of what they come from
	untimed bool      // a record has no time
}

// Key tells the lines of a stream from others with the same text, by all that the records say and by
// what they come from. It is "" if a record has no time.
func (s *Stream) Key() string {
	if s.untimed {
		return ""
	}
	return hex.EncodeToString(s.origins.Sum(nil))
}

// Bytes is the length of all lines.
func (b *Batch) Bytes() (n int64) {
	for _, s := range b.Streams {
		n += int64(len(s.Text))
	}
	return n
}

// add adds a record. Its time is in nanoseconds; 0: it has none. The origin is what else tells it
// from other records.
func (b *Batch) add(name string, time uint64, line []byte, origin ...[]byte) error {
	s := b.byName[name]
	if s == nil {
		if len(b.Streams) == StreamsMax {
			return fmt.Errorf("more than %d streams", StreamsMax)
		}
		if b.byName == nil {
			b.byName = map[string]*Stream{}
		}
		s = &Stream{Name: name, origins: sha256.New()}
		b.byName[name] = s
		b.Streams = append(b.Streams, s)
	}
	var raw [8]byte
	binary.BigEndian.PutUint64(raw[:], time)
	s.origins.Write(raw[:])
	for _, part := range origin {
		s.origins.Write(part)
	}
	s.untimed = s.untimed || time == 0
	s.Text = appendLine(s.Text, line)
	s.Records++
	b.Records++
	return nil
}

// refuse notes a record that no line is made of.
func (b *Batch) refuse(why string) {
	b.Records++
	if b.Refused++; b.Refused == 1 {
		b.Why = fmt.Sprintf("record %d: %s", b.Records, why)
	}
}

// breaks writes line breaks as JSON does, so that a record is one line.
var breaks = strings.NewReplacer("\r\n", `\n`, "\n", `\n`, "\r", `\r`)

// appendLine appends a record as one line.
func appendLine(text, record []byte) []byte {
	record = bytes.TrimRight(record, "\r\n")
	if bytes.ContainsAny(record, "\r\n") {
		record = []byte(breaks.Replace(string(record)))
	}
	return append(append(text, record...), '\n')
}
