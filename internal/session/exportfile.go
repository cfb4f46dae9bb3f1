package session

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/klauspost/compress/zstd"

	"github.com/lmserve/lmserve/internal/sessionlog"
	"github.com/lmserve/lmserve/internal/spool"
	"github.com/lmserve/lmserve/weights"
)

// An export is a session as one file for another server: a snapshot with the head and the log in it
// (docs/formats.md, "The export of a session").
const (
	exportVersion = 1
	exportLevel   = zstd.SpeedDefault
	numberBytes   = 8 // of an element of every column but that of the text

	keyExport       = "lmserve.export"  // of an exported
	keyHead         = "lmserve.session" // of the head
	columnText      = "log.text"
	columnEnds      = "log.ends"
	columnTimes     = "log.times"
	columnBits      = "log.bits"
	columnBaseline  = "log.baseline"
	columnContinued = "log.continued"
	columnLearning  = "log.learning"
	columnSkipped   = "log.skipped"
	columnWords     = "log.words"   // the counts of sessionlog.Words
	columnUnknown   = "log.unknown" // its bits

	learnsAll = -1 // in columnLearning, of a record that is not learnt by lines
)

// exported says what the file is.
type exported struct {
	Version int    `json:"version"`
	Content string `json:"content"` // hash of the file without this
}

// seal adds the hash of everything else.
func seal(f *weights.Stored) error {
	hash, err := f.Hash()
	if err != nil {
		return fmt.Errorf("session: export: %w", err)
	}
	text, err := json.Marshal(exported{exportVersion, hash})
	if err != nil {
		return fmt.Errorf("session: export: %w", err)
	}
	f.Metadata[keyExport] = string(text)
	return nil
}

// column is one field of all records of a log, on its way into a spool.
type column struct {
	name  string
	dtype weights.DType
	bytes int64 // of all records
	at    int64 // in the spool
	out   *bufio.Writer
}

// columns are the records of a log, field by field, in a spool: each field where its column is.
type columns struct {
	content                       *spool.Spool
	text, ends, times, bits, base column
	continued                     column // of a session of bytes
	learning, skipped             column // where the head says that text may be learnt by lines
	words, unknown                column // of a session of words
}

// logExtent is how much a log has.
type logExtent struct {
	records, bytes, skipped int64
	words                   bool // its records have an account of words
	continued               bool // its text has bytes that continue a character
}

// newColumns has room for a log of a session with a head, at the end of what the spool holds.
func newColumns(h *head, log logExtent, content *spool.Spool) (*columns, error) {
	size := log.records * numberBytes
	l := &columns{
		content: content,

		text:  column{name: columnText, dtype: weights.U8, bytes: log.bytes},
		ends:  column{name: columnEnds, dtype: weights.I64, bytes: size},
		times: column{name: columnTimes, dtype: weights.I64, bytes: size},
		bits:  column{name: columnBits, dtype: weights.F64, bytes: size},
	}
	if h.Settings.Baseline {
		l.base = column{name: columnBaseline, dtype: weights.F64, bytes: size}
	}
	if h.ByLine {
		l.learning = column{name: columnLearning, dtype: weights.I64, bytes: size}
		l.skipped = column{
			name: columnSkipped, dtype: weights.I64, bytes: log.skipped * numberBytes,
		}
	}
	if log.continued {
		l.continued = column{name: columnContinued, dtype: weights.I64, bytes: size}
	}
	if log.words {
		l.words = column{name: columnWords, dtype: weights.I64, bytes: wordCounts * size}
		l.unknown = column{name: columnUnknown, dtype: weights.F64, bytes: wordBits * size}
	}
	at, err := content.Bytes()
	if err != nil {
		return nil, fmt.Errorf("session: export: %w", err)
	}
	for _, c := range l.all() {
		c.at, c.out = at, bufio.NewWriterSize(io.NewOffsetWriter(content, at), spool.BufferBytes)
		at += c.bytes
	}
	return l, nil
}

// all are the columns that there are.
func (l *columns) all() []*column {
	all := []*column{&l.text, &l.ends, &l.times, &l.bits}
	for _, c := range []*column{&l.base, &l.continued, &l.learning, &l.skipped, &l.words, &l.unknown} {
		if c.name != "" {
			all = append(all, c)
		}
	}
	return all
}

// append appends a record.
func (l *columns) append(at int64, r sessionlog.Record) error {
	_, err := l.text.out.Write(r.Text)
	err = errors.Join(err, l.ends.append(uint64(at+int64(len(r.Text)))),
		l.times.append(uint64(r.UnixMS)), l.bits.append(math.Float64bits(r.Bits)))
	if l.base.out != nil {
		err = errors.Join(err, l.base.append(math.Float64bits(r.Baseline)))
	}
	if l.continued.out != nil {
		err = errors.Join(err, l.continued.append(uint64(r.Continued)))
	}
	if l.learning.out != nil {
		err = errors.Join(err, l.appendLesson(r))
	}
	if l.words.out != nil {
		err = errors.Join(err, l.appendWords(r))
	}
	return err
}

// Numbers of a record in columnWords and in columnUnknown.
const (
	wordCounts = 6
	wordBits   = 2
)

// appendWords appends a record's account of words.
func (l *columns) appendWords(r sessionlog.Record) (err error) {
	w := r.Words
	if w == nil {
		return errors.New("session: export: a record has no account of words, and others have one")
	}
	for _, n := range []int64{
		w.Bytes, w.Chars, w.Tokens, w.Unknown, w.UnknownBytes, w.UnknownChars,
	} {
		err = errors.Join(err, l.words.append(uint64(n)))
	}
	return errors.Join(err, l.unknown.append(math.Float64bits(w.UnknownBits)),
		l.unknown.append(math.Float64bits(w.UnknownBaseline)))
}

// appendLesson appends what says how the text of a record is learnt.
func (l *columns) appendLesson(r sessionlog.Record) error {
	count := int64(learnsAll)
	if r.ByLine {
		count = int64(len(r.Skipped))
	}
	err := l.learning.append(uint64(count))
	for _, n := range r.Skipped {
		err = errors.Join(err, l.skipped.append(uint64(n)))
	}
	return err
}

// append appends a number.
func (c *column) append(number uint64) error {
	_, err := c.out.Write(binary.LittleEndian.AppendUint64(c.out.AvailableBuffer(), number))
	return err
}

// flush writes what is not in the spool yet.
func (l *columns) flush() (err error) {
	for _, c := range l.all() {
		err = errors.Join(err, c.out.Flush())
	}
	return err
}

// tensors are the columns as they stand in the spool.
func (l *columns) tensors() (all []weights.StoredTensor) {
	for _, c := range l.all() {
		all = append(all, weights.StoredTensor{
			Name: c.name, DType: c.dtype, Shape: []int{int(c.bytes) / c.dtype.Size()}, Bytes: c.bytes,
			Data: io.NewSectionReader(l.content, c.at, c.bytes),
		})
	}
	return all
}

// checkSeal takes the seal off.
func checkSeal(f *weights.Stored) error {
	text, ok := f.Metadata[keyExport]
	if !ok {
		return fmt.Errorf("metadata %s is missing: the file is no export of a session", keyExport)
	}
	var e exported
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		return fmt.Errorf("metadata %s: %w", keyExport, err)
	}
	if e.Version != exportVersion {
		return fmt.Errorf("metadata %s: version is %d, expected %d",
			keyExport, e.Version, exportVersion)
	}
	delete(f.Metadata, keyExport)
	have, err := f.Hash()
	switch {
	case err != nil:
		return err
	case e.Content != have:
		return fmt.Errorf("the content's hash is %s, expected %.80q: the file is damaged",
			have, e.Content)
	}
	return nil
}

func exportedHead(text string) (head, error) {
	var id struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal([]byte(text), &id); err != nil {
		return head{}, err
	}
	return decodeHead(id.ID, []byte(text))
}
