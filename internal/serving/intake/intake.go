// Package intake parses the bodies that log shippers send. It returns lines, with the name of the
// stream that each belongs to. It depends neither on sessions nor on HTTP.
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

// Limits on a body.
const (
	RecordBytesMax = 1 << 20 // size of a JSON record, or of a resource, that is decoded into values
	// LinesBytesMax is the size of all lines of a body with records. Only MessagePack, control
	// characters and repeated fields make lines longer than their body.
	LinesBytesMax = 16 << 20
	DepthMax      = 32      // depth of nested values
	ValuesMax     = 1 << 13 // objects and arrays in an OTLP record in JSON
	StreamsMax    = 1 << 10 // streams of one body
)

// Error is a fault in a body, and its place.
type Error struct {
	Byte  int    // position of the fault in the decompressed body, about
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

// Batch is the content of a body, by stream.
type Batch struct {
	Streams []*Stream // streams in the order of the body
	Records int
	Refused int    // records that gave no line
	Why     string // why the first of them was refused; "" if none was

	byName map[string]*Stream
}

// Stream has the lines of one stream of a body, in order.
type Stream struct {
	Name    string
	Text    []byte // each line with its newline
	Records int

	origins hash.Hash // of the records and their sources
	untimed bool      // a record has no time
}

// Key returns a hash of the records, their times and their sources. It distinguishes a repeated
// request from different records with the same text. It is "" if a record has no time.
func (s *Stream) Key() string {
	if s.untimed {
		return ""
	}
	return hex.EncodeToString(s.origins.Sum(nil))
}

// Bytes returns the length of all lines.
func (b *Batch) Bytes() (n int64) {
	for _, s := range b.Streams {
		n += int64(len(s.Text))
	}
	return n
}

// add adds a record. Its time is in nanoseconds; 0: it has none. origin has all else that
// distinguishes it from other records.
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

// refuse counts a record that gives no line.
func (b *Batch) refuse(why string) {
	b.Records++
	if b.Refused++; b.Refused == 1 {
		b.Why = fmt.Sprintf("record %d: %s", b.Records, why)
	}
}

// appendLineOf is appendLine within LinesBytesMax, for the line of a record.
func appendLineOf(text, line []byte, record value) ([]byte, error) {
	if len(text)+len(line) > LinesBytesMax {
		return nil, &Error{record.at, record.where,
			fmt.Sprintf("the lines of the body have more than %d bytes", LinesBytesMax)}
	}
	return appendLine(text, line), nil
}

// breaks escapes line breaks as JSON does, so that a record is one line.
var breaks = strings.NewReplacer("\r\n", `\n`, "\n", `\n`, "\r", `\r`)

// appendLine appends a record as one line.
func appendLine(text, record []byte) []byte {
	record = bytes.TrimRight(record, "\r\n")
	if bytes.ContainsAny(record, "\r\n") {
		record = []byte(breaks.Replace(string(record)))
	}
	return append(append(text, record...), '\n')
}
