package session

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/google/uuid"
	"github.com/klauspost/compress/zstd"

	"github.com/lmserve/lmserve/internal/sessionlog"
	"github.com/lmserve/lmserve/internal/stream"
	"github.com/lmserve/lmserve/weights"
)

// An export is a snapshot with the log in it (docs/formats.md, "The export of a session").
const (
	exportVersion = 1
	exportLevel   = zstd.SpeedDefault

	keyExport      = "lmserve.export"  // an exported
	keyHead        = "lmserve.session" // the head
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

// Export writes a session as one file, from which Import makes it again, here or elsewhere. Until it is written, its content takes memory: if there is
// not enough, Export returns ErrFull. Nothing is written before an error but one of w.
func (mg *Manager) Export(ctx context.Context, who Caller, id string, w io.Writer) error {
	s, err := mg.use(who, id)
	if err != nil {
		return err
	}
	defer mg.unuse(s)
	l := loan{mg: mg}
	defer l.repay()
	f, err := mg.file(ctx, s, &l)
	if err != nil {
		return err
	}
	z, err := zstd.NewWriter(w, zstd.WithEncoderLevel(exportLevel), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return fmt.Errorf("session: export: %w", err)
	}
	if err := weights.Write(z, f); err != nil {
		_ = z.Close() // the first error says more
		return fmt.Errorf("session: export: %w", err)
	}
	if err := z.Close(); err != nil {
		return fmt.Errorf("session: export: %w", err)
	}
	return nil
}

// file is the session as it is now.
func (mg *Manager) file(ctx context.Context, s *session, memory *loan) (*weights.File, error) {
	if err := mg.enter(); err != nil { // of writing it, which may take long, nothing has to be waited for
		return nil, err
	}
	defer mg.leave()
	if err := mg.lock(ctx, s); err != nil {
		return nil, err
	}
	defer mg.unlock(s)
	if err := memory.take(stream.StateBytes(mg.model, s.Settings)); err != nil {
		return nil, err
	}
	f, err := s.stream.Snapshot()
	if err != nil {
		return nil, fmt.Errorf("session: export: %w", err)
	}
	found, err := mg.options.Store.Get(ctx, s.ID)
	if err != nil {
		return nil, mg.storeError("looking for session "+s.ID, err)
	}
	l := columns{baseline: s.Settings.Baseline}
	err = mg.options.Store.Read(ctx, s.ID, found.Start, func(at int64, r sessionlog.Record) error {
		l.add(at, r)
		return memory.take(int64(len(r.Text)) + rowBytes)
	})
	if err != nil {
		return nil, mg.storeError("reading the log of session "+s.ID, err)
	}
	f.Metadata[keyHead] = string(s.encode())
	f.Tensors = append(f.Tensors, l.tensors()...)
	return f, seal(f)
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

// rowBytes is what a record has in columns beside its text.
const rowBytes = 4 * 8

// columns are the records of a log, field by field.
type columns struct {
	baseline                      bool
	records                       int
	text, ends, times, bits, base []byte
}

func (l *columns) add(at int64, r sessionlog.Record) {
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

// Import makes a session of what Export wrote, with a new id, that belongs to the caller. Its error is ErrImport for a file that is not whole, or
// of another model (a *ModelError); a *BodyError when it cannot be read; ErrFull when there is no memory for it; and what Create returns.
func (mg *Manager) Import(ctx context.Context, who Caller, r io.Reader) (Info, error) {
	if err := mg.enter(); err != nil {
		return Info{}, err
	}
	defer mg.leave()
	l := loan{mg: mg}
	defer l.repay()
	f, err := readCharged(&l, r)
	if err != nil {
		return Info{}, err
	}
	p, err := mg.parse(f)
	switch {
	case errors.Is(err, ErrFull):
		return Info{}, err
	case err != nil:
		return Info{}, fmt.Errorf("%w: %w", ErrImport, err)
	}
	id, err := uuid.NewV7()
	if err != nil {
		return Info{}, fmt.Errorf("session: id: %w", err)
	}
	h := p.head
	s := mg.fresh(who, id.String(), h.Settings, CreateRequest{Labels: h.Labels, TTL: h.TTL, History: h.History})
	s.Complete, s.Parent, s.Numerics = false, h.Parent, h.Numerics
	if n := len(s.encode()); n > sessionlog.MaxHeadBytes {
		return Info{}, fmt.Errorf("%w: metadata %s: a head of %d bytes, expected at most %d", ErrImport, keyHead, n, sessionlog.MaxHeadBytes)
	}
	return mg.build(ctx, who, s, p.start, func() error { return mg.fill(ctx, s, p) })
}

// readCharged reads the file as its memory is granted.
func readCharged(l *loan, r io.Reader) (*weights.File, error) {
	c, err := newCharged(l, r)
	if err != nil {
		return nil, err
	}
	defer c.close()
	f, err := weights.Read(c, weights.Limits{})
	if err != nil {
		return nil, c.why(err)
	}
	return f, nil
}

// fill writes what was parsed.
func (mg *Manager) fill(ctx context.Context, s *session, p *parsed) error {
	c := copier{mg: mg, to: s, at: p.start}
	for _, r := range p.records {
		if err := c.add(ctx, r); err != nil {
			return mg.storeError("importing session "+s.ID, err)
		}
	}
	if err := c.flush(ctx); err != nil {
		return mg.storeError("importing session "+s.ID, err)
	}
	write := func(w io.Writer) error { return weights.Write(w, p.snapshot) }
	if err := mg.options.Store.WriteSnapshot(ctx, s.ID, s.epoch, c.at, write); err != nil {
		return mg.storeError("importing session "+s.ID, err)
	}
	found, err := mg.options.Store.Get(ctx, s.ID)
	if err != nil {
		return mg.storeError("looking for session "+s.ID, err)
	}
	s.seen = s.stored(found)
	if !mg.resident {
		return nil
	}
	if err := mg.warm(ctx, s); err != nil {
		return err
	}
	return mg.dropSnapshots(ctx, s)
}

// parsed is an export taken apart and checked.
type parsed struct {
	head     head
	start    int64
	records  []sessionlog.Record
	snapshot *weights.File
}

// parse checks everything that can be checked without computing the session again.
func (mg *Manager) parse(f *weights.File) (*parsed, error) {
	if err := checkSeal(f); err != nil {
		return nil, err
	}
	h, err := exportedHead(f.Metadata[keyHead])
	if err != nil {
		return nil, fmt.Errorf("metadata %s: %w", keyHead, err)
	}
	if h.Model.Hash != mg.model.Hash() {
		return nil, &ModelError{Have: h.Model.id(), Want: mg.model.ID()}
	}
	p := &parsed{head: h, snapshot: &weights.File{Metadata: f.Metadata}}
	delete(f.Metadata, keyHead)
	for _, t := range f.Tensors {
		if !slices.Contains([]string{columnText, columnEnds, columnTimes, columnBits, columnBaseline}, t.Name) {
			p.snapshot.Tensors = append(p.snapshot.Tensors, t)
		}
	}
	if err := h.Settings.Validate(mg.model); err != nil {
		return nil, err
	}
	l := loan{mg: mg}
	defer l.repay()
	if err := l.take(stream.StateBytes(mg.model, h.Settings)); err != nil {
		return nil, err
	}
	st, _, err := stream.Restore(mg.model, h.Settings, p.snapshot)
	if err != nil {
		return nil, err
	}
	if err := p.readLog(f); err != nil {
		return nil, err
	}
	return p, p.check(st)
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
		return fmt.Errorf("metadata %s: version is %d, expected %d", keyExport, e.Version, exportVersion)
	}
	delete(f.Metadata, keyExport)
	if have := f.Hash(); e.Content != have {
		return fmt.Errorf("the content's hash is %s, expected %.80q: the file is damaged", have, e.Content)
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
				return fmt.Errorf("tensor %q is there, expected none without a baseline", columnBaseline)
			}
			continue
		}
		if numbers[n], err = column(c.name, c.d); err != nil {
			return err
		}
		if len(numbers[n]) != len(numbers[0]) {
			return fmt.Errorf("tensor %q has %d elements, expected %d, as %q", c.name, len(numbers[n])/8, len(numbers[0])/8, columnEnds)
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
			return fmt.Errorf("tensor %q has %d bytes, expected none without records", columnText, len(text))
		}
		return nil
	}
	if p.start = int64(at(0, count-1)) - int64(len(text)); p.start < 0 {
		return fmt.Errorf("tensor %q ends at offset %d, expected %d or more, the bytes of the text", columnEnds, at(0, count-1), len(text))
	}
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

// check holds log, head and state against each other.
func (p *parsed) check(st *stream.Stream) error {
	if p.head.History == HistoryFull && p.start > 0 {
		return fmt.Errorf("the log begins at offset %d, expected 0: the head says that it is full", p.start)
	}
	end, last := p.start, sessionlog.Record{}
	for n, r := range p.records {
		if !(r.Bits >= last.Bits) || !(r.Baseline >= last.Baseline) || math.IsInf(r.Bits, 0) || math.IsInf(r.Baseline, 0) {
			return fmt.Errorf("record %d has totals of %v and %v bits after %v and %v, expected finite ones that do not fall", n, r.Bits, r.Baseline, last.Bits, last.Baseline)
		}
		last, end = r, end+int64(len(r.Text))
	}
	switch {
	case st.Tally.Bytes != end:
		return fmt.Errorf("the state is that of offset %d, expected %d, the end of the log", st.Tally.Bytes, end)
	case math.Float64bits(st.Tally.Bits) != math.Float64bits(last.Bits):
		return fmt.Errorf("the state has %v bits, expected %v, as the last record", st.Tally.Bits, last.Bits)
	case math.Float64bits(st.Baseline.Bits) != math.Float64bits(last.Baseline):
		return fmt.Errorf("the state has %v bits of the baseline, expected %v, as the last record", st.Baseline.Bits, last.Baseline)
	}
	return nil
}
