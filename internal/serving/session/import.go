package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/serving/spool"
	"github.com/lmserve/lmserve/internal/serving/storage"
	"github.com/lmserve/lmserve/internal/serving/storage/folder"
)

// importArchive makes a session from an archive that Export wrote. The name in the archive's head
// is ignored.
func (mg *Manager) importArchive(
	ctx context.Context, who Caller, r io.Reader, name string,
) (Info, error) {
	received, err := spool.Receive(r)
	var reading *spool.ReadError
	switch {
	case errors.As(err, &reading):
		return Info{}, &BodyError{Offset: -1, Err: reading.Err}
	case err != nil:
		return Info{}, err
	}
	defer received.Close()
	a, err := mg.engine.openArchive(ctx, received)
	if err != nil {
		return Info{}, err
	}
	h := a.head
	like := CreateRequest{Labels: h.Labels, TTL: h.TTL, History: h.History}
	s, err := mg.index.fresh(who, name, a.model, h.Settings, like)
	if err != nil {
		return Info{}, err
	}
	s.Complete, s.Parent = false, h.Parent
	s.Numerics, s.LinesFrom, s.ByLine = h.Numerics, h.LinesFrom, h.ByLine
	s.TroubleWords, s.Records, s.Feedback = h.TroubleWords, h.Records, h.Feedback
	if n := len(s.encode()); n > storage.MaxHeadBytes {
		return Info{}, fmt.Errorf("%w: the head has %d bytes, expected at most %d", ErrImport, n,
			storage.MaxHeadBytes)
	}
	store := func() error { return mg.index.create(ctx, s, a.found.Start) }
	fill := func() error { return mg.engine.fill(ctx, s, a) }
	return mg.index.build(ctx, creation{
		who: who, s: s, store: store, fill: fill, disk: a.store.Usage().Sessions,
	})
}

func (e *engine) fill(ctx context.Context, s *session, a *archive) error {
	log := toldLog{a.store, e.imports.part("storing", a.found.End-a.found.Start)}
	err := copyLog(ctx, log, a.found.ID, a.found.Start,
		func(at int64, records []storage.Record, bytes, _ int) error {
			if err := e.chargeRecords(s, bytes, len(records)); err != nil {
				return err
			}
			return s.appendLocked(ctx, at, records...)
		})
	if err != nil {
		return err
	}
	end := a.found.End
	err = s.writeSnapshotLocked(ctx, end, storage.CopySnapshot(ctx, a.store, a.found.ID, end))
	if err != nil {
		return err
	}
	if err := s.lookLocked(ctx); err != nil {
		return err
	}
	return s.settleIn(ctx)
}

type archive struct {
	store *folder.Folder
	found storage.Session
	head  head
	model *servedModel
}

// openArchive opens and checks an archive, but does not recompute scores. The checks need memory
// for one session's state.
func (e *engine) openArchive(ctx context.Context, received *spool.Spool) (a *archive, err error) {
	file, err := received.Reader()
	if err != nil {
		return nil, err
	}
	err = e.packs(ctx, func() error {
		a, err = readArchive(ctx, e.models, file)
		return importError(err)
	})
	if err != nil {
		return nil, err
	}
	if end := a.found.End; end > e.textMax {
		return nil, importError(fmt.Errorf("the log ends at offset %d, expected at most %d, the "+
			"limit on the text of a session", end, e.textMax))
	}
	state := e.budget.OpenOn(a.model.base(), nil)
	defer state.Close()
	m, err := reserveState(ctx, state, a.model, a.head.stateBytes(a.model.Model))
	if err != nil {
		return nil, err
	}
	log := toldLog{a.store, e.imports.part("checking", a.found.End-a.found.Start)}
	return a, e.packs(ctx, func() error { return importError(a.check(ctx, m, log)) })
}

// importError wraps an error of reading an archive in ErrImport. It returns ErrNoSpace unchanged.
func importError(err error) error {
	if err == nil || errors.Is(err, spool.ErrNoSpace) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrImport, err)
}

func readArchive(ctx context.Context, served models, file *io.SectionReader) (*archive, error) {
	if err := checkForm(file); err != nil {
		return nil, err
	}
	store, err := folder.OpenExport(file)
	if err != nil {
		return nil, err
	}
	a := &archive{store: store}
	err = storage.Each(ctx, store, func(found storage.Session) error {
		a.found = found
		return found.Err
	})
	if err != nil {
		return nil, err
	}
	if a.head, err = decodeHead(a.found.ID, a.found.Head); err != nil {
		return nil, err
	}
	if err := a.head.checkOrigin(); err != nil {
		return nil, err
	}
	if a.model = served.withHash(a.head.Model.Hash); a.model == nil {
		return nil, &ModelError{Have: a.head.Model.id(), Want: served.names()}
	}
	return a, a.head.Settings.Validate(a.model.Model)
}

// checkForm returns an error if a file has the old format of exports, which was not a tar file.
func checkForm(file *io.SectionReader) error {
	begin := make([]byte, 9)
	if _, err := file.ReadAt(begin, 0); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if bytes.HasPrefix(begin, []byte("\x28\xb5\x2f\xfd")) || begin[8] == '{' {
		return errors.New(
			"the file was exported by an old version of lmserve, before exports were tar files; " +
				"this version cannot read it")
	}
	return nil
}

// check returns an error if the archive's state, head and log contradict each other, or if the
// session cannot be continued. It decodes the state only for this check.
func (a *archive) check(ctx context.Context, m *model.Model, log logReader) error {
	end := a.found.End
	st, err := readSnapshot(ctx, m, a.store, &a.head, end)
	if errors.Is(err, storage.ErrNotFound) {
		return fmt.Errorf("the file has no state for offset %d, the end of the log", end)
	}
	if err != nil {
		return fmt.Errorf("the state at offset %d: %w", end, err)
	}
	if err := st.Finite(); err != nil {
		return err
	}
	if a.head.History == HistoryFull && a.found.Start > 0 {
		return fmt.Errorf("the log begins at offset %d, expected 0, because history is \"full\" "+
			"in the head",
			a.found.Start)
	}
	last, err := a.checkLog(ctx, m, log)
	if err != nil {
		return err
	}
	if err := a.head.checkOffsets(end); err != nil {
		return fmt.Errorf("head: %w", err)
	}
	return compareTotals(st, &last)
}

func (a *archive) checkLog(
	ctx context.Context, m *model.Model, log logReader,
) (last storage.Record, err error) {
	err = log.Read(ctx, a.found.ID, a.found.Start, func(at int64, r storage.Record) error {
		err := errors.Join(checkTime(r.UnixMS), storage.CheckRecords(at, []storage.Record{r}),
			a.head.checkRecord(last, at, r))
		if has := r.Words != nil; has != m.OfWords() {
			err = fmt.Errorf("has word counts: found %t, expected %t for this model's "+
				"tokenizer", has,
				m.OfWords())
		}
		if err != nil {
			return fmt.Errorf("the record at offset %d %w", at, err)
		}
		last = r
		return nil
	})
	return last, err
}

func compareTotals(st *stream.Stream, last *storage.Record) error {
	switch {
	case math.Float64bits(st.Tally.Bits) != math.Float64bits(last.Bits):
		return fmt.Errorf("the state has %v bits, expected %v, the last record's total",
			st.Tally.Bits, last.Bits)
	case !sameCounts(st, last):
		tally, _ := totalsOf(last, st.Offset())
		return fmt.Errorf("the state has the counts %+v, expected %+v, the last record's "+
			"counts", st.Tally, tally)
	case math.Float64bits(st.Baseline.Bits) != math.Float64bits(last.Baseline):
		return fmt.Errorf("baseline_bits of the state is %v, expected %v, as in the last record",
			st.Baseline.Bits, last.Baseline)
	}
	return nil
}
