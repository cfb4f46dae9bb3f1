// Package intake parses the bodies that log shippers send. It returns their lines by stream; a
// stream is the source of lines, such as a service. It depends neither on sessions nor on HTTP.
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
	RecordBytesMax = 1 << 20 // bytes of a JSON record, or of an OTLP resource, that is decoded
	// LinesBytesMax is the maximum number of bytes in all lines of a body with records. Lines are
	// longer than their body only with MessagePack, control characters or fields that are named
	// repeatedly.
	LinesBytesMax = 16 << 20
	DepthMax      = 32      // depth of nested values
	ValuesMax     = 1 << 13 // objects and arrays in an OTLP record in JSON
	StreamsMax    = 1 << 10 // streams of one body
)

// Error is a fault in a body, and its place.
type Error struct {
	Byte  int    // approximate position of the fault in the decompressed body
	Where string // e.g. "record 3"; empty for the whole body
	What  string // e.g. "a string was expected"
}

func (e *Error) Error() string {
	where := ""
	if e.Where != "" {
		where = e.Where + ", "
	}
	return fmt.Sprintf("%sbyte %d of the body: %s", where, e.Byte, e.What)
}

// Batch is the content of a body, grouped by stream.
type Batch struct {
	Streams []*Stream // streams in the order of the body
	Records int
	Refused int    // number of records that gave no line
	Why     string // why the first record was refused; empty if none was

	byName map[string]*Stream
}

// Stream has the lines of one stream of a body, in order.
type Stream struct {
	Name    string
	Text    []byte // each line with its newline
	Records int

	origins hash.Hash // hash of the records and their sources
	untimed bool      // at least one record has no time
}

// Key returns a hash of the records, their times and their sources. A repeated request has the same
// key; other records with the same text have another key. Key is empty if a record has no time.
func (s *Stream) Key() string {
	if s.untimed {
		return ""
	}
	return hex.EncodeToString(s.origins.Sum(nil))
}

// Bytes returns the number of bytes in all lines.
func (b *Batch) Bytes() (n int64) {
	for _, s := range b.Streams {
		n += int64(len(s.Text))
	}
	return n
}

// add adds a record. Its time is in nanoseconds, or 0 if the record has no time. origin is
// everything else that distinguishes the record from other records.
func (b *Batch) add(name string, time uint64, line []byte, origin ...[]byte) error {
	s := b.byName[name]
	if s == nil {
		if len(b.Streams) == StreamsMax {
			return fmt.Errorf("the body has more than %d streams", StreamsMax)
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

// appendLineOf appends a record's line to text. It fails if the text then has more than
// LinesBytesMax bytes.
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
