package session

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/serving/session/scheduler"
	"github.com/lmserve/lmserve/internal/serving/storage"
)

// This file looks at sessions in a store without a Manager. Nothing in it writes.

// Describe tells of a stored session what a Manager would tell an admin. Info.Err is set if the
// head cannot be read; whether the model is the right one is not looked at.
func Describe(found storage.Session) Info {
	k := readStored(nil, found)
	if k.bad == nil && !k.Complete {
		k.bad = errors.New("its making was not completed: the next start of a server deletes it")
	}
	i := k.info(Caller{Admin: true}, k.seen)
	i.LastUsed, i.Err = k.lastUsed, k.bad
	return i
}

// Verify compares a session's head, the totals of its records and its snapshots with their rules
// and with each other, without computing anything again, and visits what it finds wrong. Checksums
// are storage.Check's. The state of a session of another model cannot be looked at.
func Verify(
	ctx context.Context, m *model.Model, store storage.Store, found storage.Session,
	visit func(error),
) error {
	s := readStored(models{residentModel(m)}, found)
	if s.bad != nil {
		visit(&UnusableError{ID: s.ID, Err: s.bad})
	}
	if found.Err != nil || s.Version == 0 { // there is no head
		return nil
	}
	// A fork in the making may not have all of its parent's text yet.
	if err := s.checkOffsets(found.End); err != nil && s.Complete {
		visit(fmt.Errorf("session: session %s: head: %w", s.ID, err))
	}
	if err := verifyLog(ctx, store, &s.head, found.Start, visit); err != nil || s.bad != nil {
		return err
	}
	kept, err := store.Snapshots(ctx, s.ID)
	if err != nil {
		return damageOr(err, visit)
	}
	for _, k := range kept {
		if _, err := readSnapshot(ctx, m, store, &s.head, k.Offset); err != nil {
			visit(fmt.Errorf("session: session %s, snapshot at offset %d: %w", s.ID, k.Offset, err))
		}
	}
	return nil
}

// damageOr visits damage, and returns another error.
func damageOr(err error, visit func(error)) error {
	if errors.Is(err, storage.ErrCorrupt) {
		visit(err)
		return nil
	}
	return err
}

func verifyLog(
	ctx context.Context, store storage.Store, h *head, start int64, visit func(error),
) error {
	var last storage.Record
	err := store.Read(ctx, h.ID, start, func(at int64, r storage.Record) error {
		if wrong := h.checkRecord(last, at, r); wrong != nil {
			visit(fmt.Errorf("session: session %s, record at offset %d: %w", h.ID, at, wrong))
		}
		last = r
		return nil
	})
	return damageOr(err, visit)
}

// Replayed is what Replay has found.
type Replayed struct {
	From    int64 // where it began: 0, or at a snapshot
	To      int64 // the session's offset
	Records int   // compared
	Wrong   int   // records whose totals are others than those that the log has
	First   error // the first of these, a *MismatchError
	// Numerics names other arithmetic than this machine's in which parts of the text were scored:
	// there, rounding makes a difference.
	Numerics []string
}

// Replay computes a session again, from the beginning of its log (or the oldest snapshot, if its
// text is trimmed), and compares the totals of every record with what was told. progress is told of
// the bytes done of all.
func Replay(
	ctx context.Context, m *model.Model, store storage.Store, id string, threads int,
	progress func(done, all int64),
) (r Replayed, err error) {
	found, err := store.Get(ctx, id)
	if err != nil {
		return r, err
	}
	s := readStored(models{residentModel(m)}, found)
	if s.bad != nil {
		return r, &UnusableError{ID: id, Err: s.bad}
	}
	st, err := oldest(ctx, m, store, &s.head, found.Start)
	if err != nil {
		return r, err
	}
	r.From, r.To = st.Offset(), found.End
	r.Numerics = otherNumerics(m, &s.head, r.From)
	workers := scheduler.New(m, threads)
	defer workers.Close()
	from := &restorable{
		head: &s.head, log: store, scheduler: workers,
		job:  scheduler.Job{Session: id, Chunk: s.Settings.Chunk},
		more: func(*restoration) error { return ctx.Err() },
	}
	err = from.replay(ctx, &restoration{stream: st}, func(rec storage.Record) {
		if rec.UnixMS == uncounted {
			return
		}
		r.Records++
		if wrong := mismatch(id, st, rec.Bits, rec.Baseline); wrong != nil {
			if r.Wrong++; r.First == nil {
				r.First = wrong
			}
		}
		progress(st.Offset()-r.From, r.To-r.From)
	})
	if given, ok := errors.AsType[interrupted](err); ok {
		err = given.error
	}
	return r, err
}

// ExportStored writes a session as an archive, as Manager.Export does, and claims nothing. Its
// state is computed from the last snapshot on. part is told of a session that is not whole, before
// w is written to. A nil progress is told nothing.
func ExportStored(
	ctx context.Context, m *model.Model, store storage.Store, id string, threads int, w io.Writer,
	part func(Part), progress Progress,
) error {
	if found, err := store.Get(ctx, id); err == nil { // else find says why not
		store = toldLog{store, progress.part("reading the text",
			exportReadings*(found.End-found.Start))}
	}
	workers := scheduler.New(m, threads)
	defer workers.Close()
	made := &partMaker{models: models{residentModel(m)}, store: store, scheduler: workers,
		goesOn: ctx.Err, report: func(error) {},
		weights: func(of *servedModel, _ int64) (*model.Model, error) { return of.Model, nil }}
	x, p, err := made.find(ctx, id)
	if err != nil {
		return err
	}
	if p.Err != nil {
		part(p)
	}
	return x.write(ctx, w)
}

// exportReadings is how often ExportStored reads the text: to find out how much of it there is, and
// to write it.
const exportReadings = 2

// otherNumerics names other arithmetic than this machine's (or the model's) in which text after
// an offset was scored.
func otherNumerics(m *model.Model, h *head, from int64) (names []string) {
	for n, x := range h.Numerics {
		ends := n == len(h.Numerics)-1 || h.Numerics[n+1].From > from
		if x.Name != m.Arithmetic.Numerics() && ends {
			names = append(names, x.Name)
		}
	}
	return names
}

// oldest is the stream from which most of the log can be computed again, settled.
func oldest(
	ctx context.Context, m *model.Model, store storage.Store, h *head, start int64,
) (*stream.Stream, error) {
	if start == 0 {
		return h.emptyStream(m), nil
	}
	kept, err := store.Snapshots(ctx, h.ID)
	if err != nil {
		return nil, err
	}
	if len(kept) == 0 {
		return nil, fmt.Errorf("session: session %s has its text from offset %d on only, and no "+
			"snapshot", h.ID, start)
	}
	return readSnapshot(ctx, m, store, h, kept[0].Offset)
}
