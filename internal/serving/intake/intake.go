// Package intake parses the HTTP bodies that log shippers send, and groups their lines by stream. A
// stream is a source of lines, such as a service.
package intake

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"

	"github.com/lmserve/lmserve/internal/serving/follow"
)

// Limits on a body.
const (
	RecordBytesMax = 1 << 20 // maximum bytes of a JSON record or an OTLP resource
	// LinesBytesMax is the maximum size of all lines of a body, in bytes. Lines can be longer than
	// their body, for example because control characters are escaped.
	LinesBytesMax = 16 << 20
	DepthMax      = 32      // maximum depth of nested values
	ValuesMax     = 1 << 13 // maximum number of objects and arrays in an OTLP record in JSON
	StreamsMax    = 1 << 10 // maximum number of streams in a body
)

// Error describes a fault in a body and its position.
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
	Streams []*Stream // in the order of their first records
	Records int
	Refused int    // number of refused records, which are in no stream
	Why     string // why the first refused record was refused; empty if no record was refused

	byName map[string]*Stream
	size   int // bytes of all lines
}

// Stream has the lines of one stream of a body, in order.
type Stream struct {
	Name    string
	Text    []byte // each line with its newline
	Records int

	origins hash.Hash
	untimed bool
}

// Key returns a hash of the records, with their times and sources. Repeated requests have equal
// keys, and different records have different keys. Key is empty if a record has no time.
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

// add adds a record. The parameter time is in nanoseconds; 0 means unknown. origin is all other
// data that distinguishes the record; it becomes part of the stream's key. The lines of all records
// have at most LinesBytesMax bytes.
func (b *Batch) add(name string, time uint64, line []byte, origin ...[]byte) error {
	if b.size+len(line) > LinesBytesMax {
		return errLines
	}
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
	before := len(s.Text)
	s.Text = appendLine(s.Text, line)
	b.size += len(s.Text) - before
	s.Records++
	b.Records++
	return nil
}

func (b *Batch) refuse(why string) {
	b.Records++
	if b.Refused++; b.Refused == 1 {
		b.Why = fmt.Sprintf("record %d: %s", b.Records, why)
	}
}

var errLines = fmt.Errorf("the lines of the body have more than %d bytes", LinesBytesMax)

// appendLineOf appends a record's line to text. It fails if the text then has more than
// LinesBytesMax bytes.
func appendLineOf(text, line []byte, record value) ([]byte, error) {
	if len(text)+len(line) > LinesBytesMax {
		return nil, &Error{record.at, record.where, errLines.Error()}
	}
	return appendLine(text, line), nil
}

func appendLine(text, record []byte) []byte {
	record = bytes.TrimRight(record, "\r\n")
	if bytes.ContainsAny(record, "\r\n") {
		record = []byte(follow.OneLine(string(record)))
	}
	return append(append(text, record...), '\n')
}
