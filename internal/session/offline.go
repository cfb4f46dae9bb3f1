package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/lmserve/lmserve/internal/model"
	"github.com/lmserve/lmserve/internal/sessionlog"
	"github.com/lmserve/lmserve/internal/stream"
	"github.com/lmserve/lmserve/weights"
)

// This file looks at sessions in a store without a Manager: nothing in it writes.

// Describe tells of a stored session what a Manager would, and to an admin. Info.Err is set if its head cannot be read; its model is not looked at.
func Describe(found sessionlog.Session) Info {
	s := stored(nil, found)
	if s.bad == nil && !s.Complete {
		s.bad = errors.New("its making was not completed: the next start of a server deletes it")
	}
	return s.info(Caller{Admin: true})
}

// Verify holds a session's head, the totals of its records and its snapshots against their rules and each other, without computing anything again, and
// visits what it finds wrong. Checksums are sessionlog.Check's. The state of a session of another model cannot be looked at.
func Verify(ctx context.Context, m *model.Model, store sessionlog.Store, found sessionlog.Session, visit func(error)) error {
	s := stored(m, found)
	if s.bad != nil {
		visit(&UnusableError{ID: s.ID, Err: s.bad})
	}
	if found.Err != nil || s.Version == 0 { // there is no head
		return nil
	}
	if err := verifyLog(ctx, store, s, found.Start, visit); err != nil || s.bad != nil {
		return err
	}
	kept, err := store.Snapshots(ctx, s.ID)
	if err != nil {
		return damageOr(err, visit)
	}
	for _, k := range kept {
		if _, err := restoreFrom(ctx, m, store, s, k.Offset); err != nil {
			visit(fmt.Errorf("session: session %s, snapshot at offset %d: %w", s.ID, k.Offset, err))
		}
	}
	return nil
}

// damageOr visits damage, and returns another error.
func damageOr(err error, visit func(error)) error {
	if errors.Is(err, sessionlog.ErrCorrupt) {
		visit(err)
		return nil
	}
	return err
}

func verifyLog(ctx context.Context, store sessionlog.Store, s *session, start int64, visit func(error)) error {
	var last sessionlog.Record
	err := store.Read(ctx, s.ID, start, func(at int64, r sessionlog.Record) error {
		if r.HasBaseline != s.Settings.Baseline {
			visit(fmt.Errorf("session: session %s, record at offset %d: has baseline bits: %t, expected %t", s.ID, at, r.HasBaseline, s.Settings.Baseline))
		}
		if !(r.Bits >= last.Bits) || !(r.Baseline >= last.Baseline) || math.IsInf(r.Bits, 0) || math.IsInf(r.Baseline, 0) {
			visit(fmt.Errorf("session: session %s, record at offset %d: totals of %v and %v bits after %v and %v, expected finite ones that do not fall",
				s.ID, at, r.Bits, r.Baseline, last.Bits, last.Baseline))
		}
		last = r
		return nil
	})
	return damageOr(err, visit)
}

// restoreFrom reads a snapshot.
func restoreFrom(ctx context.Context, m *model.Model, store sessionlog.Store, s *session, at int64) (st *stream.Stream, err error) {
	err = store.ReadSnapshot(ctx, s.ID, at, func(r io.Reader) error {
		f, err := weights.Read(r, weights.Limits{})
		if err != nil {
			return err
		}
		st, _, err = stream.Restore(m, s.Settings, f)
		if err == nil && st.Tally.Bytes != at {
			return fmt.Errorf("it is of offset %d, expected %d", st.Tally.Bytes, at)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return st, nil
}

// Replayed is what Replay has found.
type Replayed struct {
	From     int64    // where it began: 0, or at a snapshot
	To       int64    // the session's offset
	Records  int      // compared
	Wrong    int      // of these, whose totals are others than were told
	First    error    // the first of these, a *MismatchError
	Numerics []string // other arithmetic than this machine's in which parts of the text were scored: there, rounding makes a difference
}

// Replay computes a session again, from the beginning of its log (or the oldest snapshot, if its text is trimmed), and compares the totals of every
// record with what was told. progress is told of the bytes done of all.
func Replay(ctx context.Context, m *model.Model, store sessionlog.Store, id string, threads int, progress func(done, all int64)) (r Replayed, err error) {
	found, err := store.Get(ctx, id)
	if err != nil {
		return r, err
	}
	s := stored(m, found)
	if s.bad != nil {
		return r, &UnusableError{ID: id, Err: s.bad}
	}
	st, err := oldest(ctx, m, store, s, found.Start)
	if err != nil {
		return r, err
	}
	r.From, r.To = st.Tally.Bytes, found.End
	for n, x := range s.Numerics {
		if ends := n == len(s.Numerics)-1 || s.Numerics[n+1].From > r.From; x.Name != m.Arithmetic.Numerics() && ends {
			r.Numerics = append(r.Numerics, x.Name)
		}
	}
	w := stream.NewWorker(m, threads)
	defer w.Close()
	err = store.Read(ctx, id, r.From, func(at int64, rec sessionlog.Record) error {
		for text := rec.Text[st.Tally.Bytes-at:]; len(text) > 0; {
			if err := ctx.Err(); err != nil {
				return err
			}
			n := min(len(text), st.Room())
			w.Feed(st, text[:n], nil)
			text = text[n:]
		}
		r.Records++
		if err := differ(st, id, rec); err != nil {
			if r.Wrong++; r.First == nil {
				r.First = err
			}
		}
		progress(st.Tally.Bytes-r.From, r.To-r.From)
		return nil
	})
	return r, err
}

// differ compares the totals with those of a record.
func differ(st *stream.Stream, id string, r sessionlog.Record) error {
	e := &MismatchError{ID: id, Offset: st.Tally.Bytes, Have: st.Tally.Bits, Want: r.Bits}
	if math.Float64bits(e.Have) != math.Float64bits(e.Want) {
		return e
	}
	e.Have, e.Want, e.Baseline = st.Baseline.Bits, r.Baseline, true
	if st.Settings.Baseline && math.Float64bits(e.Have) != math.Float64bits(e.Want) {
		return e
	}
	return nil
}

// oldest is the stream from which most of the log can be computed again, settled.
func oldest(ctx context.Context, m *model.Model, store sessionlog.Store, s *session, start int64) (*stream.Stream, error) {
	if start == 0 {
		return stream.New(m, s.Settings), nil
	}
	kept, err := store.Snapshots(ctx, s.ID)
	if err != nil {
		return nil, err
	}
	if len(kept) == 0 {
		return nil, fmt.Errorf("session: session %s has its text from offset %d on only, and no snapshot", s.ID, start)
	}
	return restoreFrom(ctx, m, store, s, kept[0].Offset)
}
