package session

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"

	"github.com/klauspost/compress/zstd"

	"github.com/lmserve/lmserve/internal/sessionlog"
	"github.com/lmserve/lmserve/internal/stream"
	"github.com/lmserve/lmserve/weights"
)

// An export is a session as one file for another server: a snapshot with the head and the log in it
// (docs/formats.md, "The export of a session").
const (
	exportVersion = 1
	exportLevel   = zstd.SpeedDefault

	keyExport      = "lmserve.export"  // of an exported
	keyHead        = "lmserve.session" // of the head
	columnText     = "log.text"
	columnEnds     = "log.ends"
	columnTimes    = "log.times"
	columnBits     = "log.bits"
	columnBaseline = "log.baseline"
)

// exported says what the file is.
type exported struct {
	Version int    `json:"version"`
	Content string `json:"content"` // hash of the file without this
}

// seal adds the hash of everything else.
func seal(f *weights.File) error {
	text, err := json.Marshal(exported{exportVersion, f.Hash()})
	if err != nil {
		return fmt.Errorf("session: export: %w", err)
	}
	f.Metadata[keyExport] = string(text)
	return nil
}

// parsedBytes is what a record takes that was parsed, beside its text and its row.
const parsedBytes = 64

// rowBytes is what a record takes in columns beside its text.
const rowBytes = 4 * 8

// columns are the records of a log, field by field.
type columns struct {
	baseline                      bool
	records                       int
	text, ends, times, bits, base []byte
}

// newColumns has room for so many records with so many bytes of text.
func newColumns(baseline bool, records, bytes int) *columns {
	l := &columns{baseline: baseline, text: make([]byte, 0, bytes)}
	all := []*[]byte{&l.ends, &l.times, &l.bits}
	if baseline {
		all = append(all, &l.base)
	}
	for _, column := range all {
		*column = make([]byte, 0, 8*records)
	}
	return l
}

func (l *columns) append(at int64, r sessionlog.Record) {
	l.records++
	l.text = append(l.text, r.Text...)
	l.ends = binary.LittleEndian.AppendUint64(l.ends, uint64(at+int64(len(r.Text))))
	l.times = binary.LittleEndian.AppendUint64(l.times, uint64(r.UnixMS))
	l.bits = binary.LittleEndian.AppendUint64(l.bits, math.Float64bits(r.Bits))
	if l.baseline {
		l.base = binary.LittleEndian.AppendUint64(l.base, math.Float64bits(r.Baseline))
	}
}

func (l *columns) tensors() []weights.Tensor {
	n := []int{l.records}
	all := []weights.Tensor{
		{Name: columnText, DType: weights.U8, Shape: []int{len(l.text)}, Data: l.text},
		{Name: columnEnds, DType: weights.I64, Shape: n, Data: l.ends},
		{Name: columnTimes, DType: weights.I64, Shape: n, Data: l.times},
		{Name: columnBits, DType: weights.F64, Shape: n, Data: l.bits},
	}
	if l.baseline {
		all = append(all, weights.Tensor{Name: columnBaseline, DType: weights.F64, Shape: n, Data: l.base})
	}
	return all
}

// parsed is an export taken apart and checked.
type parsed struct {
	head     head
	start    int64
	records  []sessionlog.Record
	snapshot *weights.File
}

// takes is what the session will be charged for on the disk, at most: a snapshot may be stored
// compressed.
func (p *parsed) takes(id string) int64 {
	bytes := int64(sessionlog.KeyCharge)
	for _, r := range p.records {
		bytes += sessionlog.RecordCharge(id, len(r.Text))
	}
	for _, t := range p.snapshot.Tensors {
		bytes += int64(len(t.Data))
	}
	return bytes
}

// checkSeal takes the seal off.
func checkSeal(f *weights.File) error {
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
	if have := f.Hash(); e.Content != have {
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

// readLog puts the records together.
func (p *parsed) readLog(f *weights.File) error {
	column := func(name string, d weights.DType) ([]byte, error) {
		t, ok := f.Tensor(name)
		if !ok || t.DType != d || len(t.Shape) != 1 {
			return nil, fmt.Errorf("tensor %q is missing or of another type or rank, expected %s with one dimension", name, d)
		}
		return t.Data, nil
	}
	text, err := column(columnText, weights.U8)
	if err != nil {
		return err
	}
	var numbers [4][]byte
	for n, c := range []struct {
		name string
		d    weights.DType
	}{{columnEnds, weights.I64}, {columnTimes, weights.I64}, {columnBits, weights.F64}, {columnBaseline, weights.F64}} {
		if c.name == columnBaseline && !p.head.Settings.Baseline {
			if _, ok := f.Tensor(columnBaseline); ok {
				return fmt.Errorf("tensor %q is there, expected none without a baseline",
					columnBaseline)
			}
			continue
		}
		if numbers[n], err = column(c.name, c.d); err != nil {
			return err
		}
		if len(numbers[n]) != len(numbers[0]) {
			return fmt.Errorf("tensor %q has %d elements, expected %d, as %q",
				c.name, len(numbers[n])/8, len(numbers[0])/8, columnEnds)
		}
	}
	return p.split(text, numbers)
}

// split cuts the text into its records.
func (p *parsed) split(text []byte, numbers [4][]byte) error {
	at := func(column, n int) uint64 { return binary.LittleEndian.Uint64(numbers[column][8*n:]) }
	count := len(numbers[0]) / 8
	if count == 0 {
		if len(text) > 0 {
			return fmt.Errorf("tensor %q has %d bytes, expected none without records",
				columnText, len(text))
		}
		return nil
	}
	if p.start = int64(at(0, count-1)) - int64(len(text)); p.start < 0 {
		return fmt.Errorf("tensor %q ends at offset %d, expected %d or more, the bytes of the text",
			columnEnds, at(0, count-1), len(text))
	}
	p.records = make([]sessionlog.Record, 0, count)
	from := p.start
	for n := range count {
		end := int64(at(0, n))
		if size := end - from; end < from || size < 1 || size > sessionlog.MaxTextBytes || end-p.start > int64(len(text)) {
			return fmt.Errorf("tensor %q, element %d is %d after %d, expected a record of 1 to %d bytes", columnEnds, n, end, from, sessionlog.MaxTextBytes)
		}
		r := sessionlog.Record{UnixMS: int64(at(1, n)), Bits: math.Float64frombits(at(2, n)), Text: text[from-p.start : end-p.start]}
		if r.HasBaseline = p.head.Settings.Baseline; r.HasBaseline {
			r.Baseline = math.Float64frombits(at(3, n))
		}
		p.records, from = append(p.records, r), end
	}
	return nil
}

// check compares log, head and state with each other.
func (p *parsed) check(st *stream.Stream) error {
	if p.head.History == HistoryFull && p.start > 0 {
		return fmt.Errorf("the log begins at offset %d, expected 0: the head says that it is full",
			p.start)
	}
	end, last := p.start, sessionlog.Record{}
	for n, r := range p.records {
		if err := checkTime(r.UnixMS); err != nil {
			return fmt.Errorf("tensor %q, element %d is a %w", columnTimes, n, err)
		}
		if r.Bits < last.Bits || r.Baseline < last.Baseline || !finite(r.Bits, r.Baseline) {
			return fmt.Errorf("record %d has totals of %v and %v bits after %v and %v, expected finite ones that do not fall", n, r.Bits, r.Baseline, last.Bits, last.Baseline)
		}
		last, end = r, end+int64(len(r.Text))
	}
	if err := p.head.checkOffsets(end); err != nil {
		return fmt.Errorf("metadata %s: head: %w", keyHead, err)
	}
	switch {
	case st.Tally.Bytes != end:
		return fmt.Errorf("the state is that of offset %d, expected %d, the end of the log",
			st.Tally.Bytes, end)
	case math.Float64bits(st.Tally.Bits) != math.Float64bits(last.Bits):
		return fmt.Errorf("the state has %v bits, expected %v, as the last record",
			st.Tally.Bits, last.Bits)
	case math.Float64bits(st.Baseline.Bits) != math.Float64bits(last.Baseline):
		return fmt.Errorf("the state has %v bits of the baseline, expected %v, as the last record",
			st.Baseline.Bits, last.Baseline)
	}
	return nil
}
