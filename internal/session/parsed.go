package session

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/lmserve/lmserve/internal/model"
	"github.com/lmserve/lmserve/internal/sessionlog"
	"github.com/lmserve/lmserve/internal/spool"
	"github.com/lmserve/lmserve/internal/stream"
	"github.com/lmserve/lmserve/weights"
)

// parsed is an export taken apart. Its data is where the file is.
type parsed struct {
	model    *servedModel
	head     head
	snapshot *weights.Stored
	log      logColumns
}

// logColumns are the columns of a log, as their file has them.
type logColumns struct {
	text, ends, times, bits, base *weights.StoredTensor // base: nil without a baseline
	continued                     *weights.StoredTensor // nil: no byte continues a character
	learning, skipped             *weights.StoredTensor // nil where no text is learnt by lines
	words, unknown                *weights.StoredTensor // nil for a session of bytes

	records    int64
	start, end int64 // offsets of the log
}

// parseExport takes a file apart, and checks what can be checked of it without its data.
func parseExport(served models, f *weights.Stored) (*parsed, error) {
	if err := checkSeal(f); err != nil {
		return nil, err
	}
	h, err := exportedHead(f.Metadata[keyHead])
	if err != nil {
		return nil, fmt.Errorf("metadata %s: %w", keyHead, err)
	}
	if err := h.checkOrigin(); err != nil {
		return nil, fmt.Errorf("metadata %s: %w", keyHead, err)
	}
	m := served.withHash(h.Model.Hash)
	if m == nil {
		return nil, &ModelError{Have: h.Model.id(), Want: served.names()}
	}
	if err := h.Settings.Validate(m.Model); err != nil {
		return nil, err
	}
	p := &parsed{model: m, head: h, snapshot: &weights.Stored{Metadata: f.Metadata}}
	delete(f.Metadata, keyHead)
	all := []string{columnText, columnEnds, columnTimes, columnBits, columnBaseline,
		columnContinued, columnLearning, columnSkipped, columnWords, columnUnknown}
	for _, t := range f.Tensors {
		if !slices.Contains(all, t.Name) {
			p.snapshot.Tensors = append(p.snapshot.Tensors, t)
		}
	}
	p.log, err = findLog(f, &h, m.OfWords())
	return p, err
}

// takes is what the session will be charged for on the disk, at most: a snapshot may be stored
// compressed.
func (p *parsed) takes(id string) int64 {
	bytes := sessionlog.SessionCharge + p.log.records*sessionlog.RecordCharge + p.log.text.Bytes
	if p.log.skipped != nil {
		bytes += p.log.skipped.Bytes / numberBytes * sessionlog.SkippedBytes
	}
	if p.log.words != nil {
		bytes += p.log.records * sessionlog.WordsBytes
	}
	for _, t := range p.snapshot.Tensors {
		bytes += t.Bytes
	}
	return bytes
}

// findLog finds the columns of the log of a session with a head, of words or of bytes.
func findLog(f *weights.Stored, h *head, words bool) (l logColumns, err error) {
	baseline := h.Settings.Baseline
	find := func(name string, d weights.DType) (t *weights.StoredTensor) {
		found, ok := f.Tensor(name)
		each, fixed := numbersIn(name)
		switch {
		case err != nil:
		case !ok || found.DType != d || len(found.Shape) != 1:
			err = fmt.Errorf("tensor %q is missing or of another type or rank, expected %s with one dimension",
				name, d)
		case l.ends != nil && fixed && found.Bytes != each*l.ends.Bytes:
			err = fmt.Errorf("tensor %q has %d elements, expected %d, %d for each of %q",
				name, found.Bytes/numberBytes, each*l.ends.Bytes/numberBytes, each, columnEnds)
		}
		return found
	}
	l.text = find(columnText, weights.U8)
	l.ends = find(columnEnds, weights.I64)
	l.times = find(columnTimes, weights.I64)
	l.bits = find(columnBits, weights.F64)
	if baseline {
		l.base = find(columnBaseline, weights.F64)
	} else if _, ok := f.Tensor(columnBaseline); ok && err == nil {
		err = fmt.Errorf("tensor %q is there, expected none without a baseline", columnBaseline)
	}
	if h.ByLine {
		l.learning, l.skipped = find(columnLearning, weights.I64), find(columnSkipped, weights.I64)
	} else if _, ok := f.Tensor(columnLearning); ok && err == nil {
		err = fmt.Errorf("tensor %q is there, expected none where no text is learnt by lines",
			columnLearning)
	}
	if _, ok := f.Tensor(columnContinued); ok && !words {
		l.continued = find(columnContinued, weights.I64)
	} else if ok && err == nil {
		err = fmt.Errorf("tensor %q is there, expected none of a model of words", columnContinued)
	}
	if words {
		l.words, l.unknown = find(columnWords, weights.I64), find(columnUnknown, weights.F64)
	} else {
		for _, name := range []string{columnWords, columnUnknown} {
			if _, ok := f.Tensor(name); ok && err == nil {
				err = fmt.Errorf("tensor %q is there, expected none of a model of bytes", name)
			}
		}
	}
	if err != nil {
		return l, err
	}
	return l, l.span()
}

// numbersIn is how many numbers a column has of each record, if that is fixed.
func numbersIn(column string) (n int64, fixed bool) {
	switch column {
	case columnSkipped:
		return 0, false
	case columnWords:
		return wordCounts, true
	case columnUnknown:
		return wordBits, true
	}
	return 1, true
}

// span finds out where the log begins and ends.
func (l *logColumns) span() error {
	l.records = l.ends.Bytes / numberBytes
	if l.records == 0 {
		if l.text.Bytes > 0 {
			return fmt.Errorf("tensor %q has %d bytes, expected none without records",
				columnText, l.text.Bytes)
		}
		return nil
	}
	var last [numberBytes]byte
	if _, err := l.ends.Data.ReadAt(last[:], l.ends.Bytes-numberBytes); err != nil && err != io.EOF {
		return err
	}
	l.end = int64(binary.LittleEndian.Uint64(last[:]))
	if l.start = l.end - l.text.Bytes; l.start < 0 {
		return fmt.Errorf("tensor %q ends at offset %d, expected %d or more, the bytes of the text",
			columnEnds, l.end, l.text.Bytes)
	}
	return nil
}

// each visits the records. A record's text is valid until visit returns.
func (l *logColumns) each(visit func(n int64, at int64, r sessionlog.Record) error) error {
	ends, times, bits, base := numbersOf(l.ends), numbersOf(l.times), numbersOf(l.bits), numbersOf(l.base)
	learning, skipped := numbersOf(l.learning), numbersOf(l.skipped)
	words, unknown := numbersOf(l.words), numbersOf(l.unknown)
	continued := numbersOf(l.continued)
	in := bufio.NewReaderSize(l.text.Reader(), spool.BufferBytes)
	var text []byte
	at := l.start
	for n := range l.records {
		end := int64(ends.next())
		if size := end - at; end < at || size < 1 || size > sessionlog.MaxTextBytes || end > l.end {
			return fmt.Errorf("tensor %q, element %d is %d after %d, expected a record of 1 to %d bytes",
				columnEnds, n, end, at, sessionlog.MaxTextBytes)
		}
		text = slices.Grow(text[:0], int(end-at))[:end-at]
		_, err := io.ReadFull(in, text)
		r := sessionlog.Record{
			UnixMS: int64(times.next()), Bits: math.Float64frombits(bits.next()), Text: text,
			HasBaseline: l.base != nil,
		}
		if r.HasBaseline {
			r.Baseline = math.Float64frombits(base.next())
		}
		if l.continued != nil {
			r.Continued = int64(continued.next())
		}
		if l.learning != nil && err == nil {
			r.ByLine, r.Skipped, err = decodeLesson(learning, skipped)
		}
		if l.words != nil {
			r.Words = decodeWords(words, unknown)
		}
		for _, column := range []*numbers{
			ends, times, bits, base, continued, learning, skipped, words, unknown,
		} {
			if err == nil {
				err = column.err
			}
		}
		if err == nil {
			err = r.CheckSkipped()
		}
		if err == nil {
			err = visit(n, at, r)
		}
		if err != nil {
			return err
		}
		at = end
	}
	return nil
}

// decodeLesson reads how the text of a record is learnt.
func decodeLesson(learning, skipped *numbers) (byLine bool, lines []uint16, err error) {
	count := int64(learning.next())
	if count == learnsAll {
		return false, nil, nil
	}
	if count < 0 || count > sessionlog.SkippedMax {
		return false, nil, fmt.Errorf("tensor %q has an element %d, expected %d to %d",
			columnLearning, count, learnsAll, sessionlog.SkippedMax)
	}
	for range count {
		n := skipped.next()
		if n > math.MaxUint16 {
			return false, nil, fmt.Errorf("tensor %q has an element %d, expected at most %d",
				columnSkipped, n, math.MaxUint16)
		}
		lines = append(lines, uint16(n))
	}
	return true, lines, nil
}

// decodeWords reads the account of words of a record.
func decodeWords(words, unknown *numbers) *sessionlog.Words {
	count := func() int64 { return int64(words.next()) }
	bits := func() float64 { return math.Float64frombits(unknown.next()) }
	return &sessionlog.Words{
		Bytes: count(), Chars: count(), Tokens: count(),
		Unknown: count(), UnknownBytes: count(), UnknownChars: count(),
		UnknownBits: bits(), UnknownBaseline: bits(),
	}
}

// numbers reads a column of numbers. After an error its numbers mean nothing.
type numbers struct {
	in  *bufio.Reader
	err error
}

// numbersOf reads the numbers of a column, of which there may be none.
func numbersOf(t *weights.StoredTensor) *numbers {
	if t == nil {
		return &numbers{}
	}
	return &numbers{in: bufio.NewReaderSize(t.Reader(), spool.BufferBytes)}
}

func (c *numbers) next() uint64 {
	var b [numberBytes]byte
	if c.err == nil {
		_, c.err = io.ReadFull(c.in, b[:])
	}
	return binary.LittleEndian.Uint64(b[:])
}

// check makes sure that state, head and log are those of one session that can go on. For that it
// makes the state, of which it keeps nothing.
func (p *parsed) check(m *model.Model) error {
	st, err := p.head.restoreStream(m, p.snapshot)
	if err != nil {
		return err
	}
	if err := st.Finite(); err != nil {
		return err
	}
	return p.compare(st)
}

// compare compares log, head and state with each other.
func (p *parsed) compare(st *stream.Stream) error {
	if p.head.History == HistoryFull && p.log.start > 0 {
		return fmt.Errorf("the log begins at offset %d, expected 0: the head says that it is full",
			p.log.start)
	}
	last := sessionlog.Record{}
	err := p.log.each(func(n, at int64, r sessionlog.Record) error {
		if err := checkTime(r.UnixMS); err != nil {
			return fmt.Errorf("tensor %q, element %d is a %w", columnTimes, n, err)
		}
		if r.Bits < last.Bits || r.Baseline < last.Baseline || !finite(r.Bits, r.Baseline) {
			return fmt.Errorf("record %d has totals of %v and %v bits after %v and %v, expected finite "+
				"ones that do not fall", n, r.Bits, r.Baseline, last.Bits, last.Baseline)
		}
		if err := checkCounts(&last, &r, at+int64(len(r.Text))); err != nil {
			return fmt.Errorf("record %d %w", n, err)
		}
		last = r
		return nil
	})
	if err != nil {
		return err
	}
	end := p.log.end
	if err := p.head.checkOffsets(end); err != nil {
		return fmt.Errorf("metadata %s: head: %w", keyHead, err)
	}
	switch {
	case st.Offset() != end:
		return fmt.Errorf("the state is that of offset %d, expected %d, the end of the log",
			st.Offset(), end)
	case math.Float64bits(st.Tally.Bits) != math.Float64bits(last.Bits):
		return fmt.Errorf("the state has %v bits, expected %v, as the last record",
			st.Tally.Bits, last.Bits)
	case !sameCounts(st, &last):
		tally, _ := totalsOf(&last, end)
		return fmt.Errorf("the state counts %+v, expected %+v, as the last record", st.Tally, tally)
	case math.Float64bits(st.Baseline.Bits) != math.Float64bits(last.Baseline):
		return fmt.Errorf("the state has %v bits of the baseline, expected %v, as the last record",
			st.Baseline.Bits, last.Baseline)
	}
	return nil
}
