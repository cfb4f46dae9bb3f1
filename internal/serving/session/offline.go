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

// The functions here read sessions in a store without a Manager. They write nothing.

// Describe returns the Info that an admin would get for a stored session. If the head is
// unreadable, Info.Err is set. Describe does not check whether the model is served.
func Describe(found storage.Session) Info {
	k := readStored(nil, found)
	if k.bad == nil && !k.Complete {
		k.bad = errors.New("creation was interrupted: the next server start deletes the session")
	}
	i := k.info(Caller{Admin: true}, k.seen)
	i.LastUsed, i.Err = k.lastUsed, k.bad
	return i
}

// Verify checks that a session's head, records and snapshots are valid and consistent. It calls
// visit with each error. It does not recompute scores (see Replay), and does not verify checksums
// (see storage.Check). It skips the states of sessions of other models.
func Verify(
	ctx context.Context, m *model.Model, store storage.Store, found storage.Session,
	visit func(error),
) error {
	s := readStored(models{residentModel(m)}, found)
	if s.bad != nil {
		visit(&UnusableError{ID: s.ID, Err: s.bad})
	}
	if found.Err != nil || s.Version == 0 {
		return nil
	}
	// An incomplete fork may still lack some of its parent's text.
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
		_, err := readSnapshot(ctx, m, store, &s.head, k.Offset)
		if err != nil {
			err = fmt.Errorf("session: session %s, snapshot at offset %d: %w", s.ID, k.Offset, err)
		}
		if err := damageOr(err, visit); err != nil {
			return err
		}
	}
	return nil
}

// CutHead returns the head of a session whose text was cut at offset end. It returns an unreadable
// head unchanged.
func CutHead(id string, text []byte, end int64) []byte {
	h, err := decodeHead(id, text)
	if err != nil {
		return text
	}
	h.cutTo(end)
	return h.encode()
}

func damageOr(err error, visit func(error)) error {
	if damaged(err) {
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
			visit(fmt.Errorf("session: session %s, record at offset %d %w", h.ID, at, wrong))
		}
		last = r
		return nil
	})
	return damageOr(err, visit)
}

// Replayed is the result of Replay.
type Replayed struct {
	From    int64 // offset at which the replay began; not 0 if text was trimmed
	To      int64
	Records int
	Wrong   int   // number of records whose totals differ from the recomputed ones
	First   error // first difference, a *MismatchError; or nil
	// Numerics lists the arithmetics, other than this machine's, that scored parts of the text. The
	// totals of these parts may differ by rounding.
	Numerics []string
}

// Replay recomputes the scores of a session from the beginning of its log. If the beginning was
// trimmed, Replay starts from the oldest snapshot. It compares the recomputed totals of every
// record with the stored totals. It calls progress with the bytes recomputed so far and the total
// number of bytes.
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

// ExportStored writes a session from a store as an archive, as Manager.Export does, but without a
// Manager. It computes the state from the last snapshot. If the session is damaged, it calls part
// before it writes to w. Parameter progress may be nil.
func ExportStored(
	ctx context.Context, m *model.Model, store storage.Store, id string, threads int, w io.Writer,
	part func(Part), progress Progress,
) error {
	if found, err := store.Get(ctx, id); err == nil {
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

// exportReadings is the number of times that ExportStored reads the text: once to find its end, and
// once to write it.
const exportReadings = 2

func otherNumerics(m *model.Model, h *head, from int64) (names []string) {
	for n, x := range h.Numerics {
		ends := n == len(h.Numerics)-1 || h.Numerics[n+1].From > from
		if x.Name != m.Arithmetic.Numerics() && ends {
			names = append(names, x.Name)
		}
	}
	return names
}

// oldest returns the stream from which a replay must start: an empty stream or, if the text is
// trimmed, the oldest snapshot.
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
		return nil, fmt.Errorf("session: session %s has neither the text before offset %d nor a "+
			"snapshot", h.ID, start)
	}
	return readSnapshot(ctx, m, store, h, kept[0].Offset)
}
