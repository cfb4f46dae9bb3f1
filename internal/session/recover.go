package session

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/lmserve/lmserve/internal/sessionlog"
	"github.com/lmserve/lmserve/internal/stream"
)

// lock waits for a session's state, and makes its stream if it is not there. The context ends both.
func (mg *Manager) lock(ctx context.Context, s *session) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	err := mg.warm(ctx, s)
	if err != nil {
		mg.unlock(s)
	}
	return err
}

// unlock ends what lock has begun: from now on the session may be dropped from memory.
func (mg *Manager) unlock(s *session) {
	s.unlock()
	mg.mu.Lock()
	defer mg.mu.Unlock()
	mg.signal()
}

// warm makes a cold session hot. It needs the lock.
func (mg *Manager) warm(ctx context.Context, s *session) error {
	mg.mu.Lock()
	mg.turns++
	s.turn = mg.turns
	mg.mu.Unlock()
	if s.stream != nil {
		return nil
	}
	if err := mg.claim(ctx, s); err != nil {
		return err
	}
	if err := mg.reserveState(ctx, s); err != nil {
		return err
	}
	err := mg.recoverStream(ctx, s)
	if err != nil {
		mg.drop(s)
	}
	return err
}

// claim makes this Manager the one who may write to the session, unless it is already.
func (mg *Manager) claim(ctx context.Context, s *session) error {
	if s.epoch != 0 {
		return nil
	}
	found, err := mg.options.Store.Claim(ctx, s.ID)
	if err != nil {
		return mg.storeError("claiming session "+s.ID, err)
	}
	s.epoch = found.Epoch
	mg.mu.Lock()
	defer mg.mu.Unlock()
	s.seen = s.stored(found)
	return nil
}

// MismatchError says that a session computed again from its log did not come to what was told when the text was accepted, though in the same
// arithmetic: some state or some weight is not what it was. The session goes on with the totals that were told.
type MismatchError struct {
	ID       string
	Offset   int64 // where the record ends that shows it first
	Have     float64
	Want     float64
	Baseline bool // they are the baseline's
}

func (e *MismatchError) Error() string {
	what := "bits"
	if e.Baseline {
		what = "baseline bits"
	}
	return fmt.Sprintf("session: session %s, offset %d: computed again, its total is %v %s, expected %v, as was told", e.ID, e.Offset, e.Have, what, e.Want)
}

// recoverStream makes the stream that the log's end belongs to: the last good snapshot, and the log after it. It arrives at the bits the stream had.
func (mg *Manager) recoverStream(ctx context.Context, s *session) error {
	st, err := mg.lastGood(ctx, s)
	if err != nil {
		return err
	}
	last := s.numerics()
	same := last.Name == mg.model.Arithmetic.Numerics() && st.Tally.Bytes >= last.From
	r := replay{mg: mg, s: s, stream: st, exact: same}
	if err := mg.options.Store.Read(ctx, s.ID, st.Tally.Bytes, func(at int64, rec sessionlog.Record) error { return r.record(ctx, at, rec) }); err != nil {
		var own *replayError
		if errors.As(err, &own) {
			return own.err
		}
		if errors.Is(err, sessionlog.ErrRange) {
			return &UnusableError{ID: s.ID, Err: fmt.Errorf("there is no good snapshot, and its log does not begin at 0: %w", err)}
		}
		return mg.storeError("replaying session "+s.ID, err)
	}
	mg.mu.Lock()
	seen := s.seen
	mg.mu.Unlock()
	if st.Tally.Bytes != seen.offset {
		return &UnusableError{ID: s.ID, Err: fmt.Errorf("recovered up to offset %d, expected %d", st.Tally.Bytes, seen.offset)}
	}
	if !seen.blind {
		r.compare(seen.tally.Bits, seen.baseline.Bits)
	}
	s.stream, s.rms, s.replay, s.due = st, st.FastRMS(), r.cost, 0
	if !same {
		if err := mg.changeNumerics(ctx, s, last.Name); err != nil {
			s.stream = nil
			return err
		}
	}
	mg.publish(s)
	return nil
}

// lastGood gives the stream of the newest snapshot that is good, else that of an empty text. A damaged one is dropped as soon as there is something to
// go on from without it: left there, it would push a good one out.
func (mg *Manager) lastGood(ctx context.Context, s *session) (*stream.Stream, error) {
	var st *stream.Stream
	var cause error // why the newest is not good
	kept, err := mg.options.Store.Snapshots(ctx, s.ID)
	if errors.Is(err, sessionlog.ErrCorrupt) {
		mg.options.Report(fmt.Errorf("session: session %s: its snapshots are not used: %w", s.ID, err))
		cause, kept, err = err, nil, nil
	}
	if err != nil {
		return nil, mg.storeError("looking for snapshots of session "+s.ID, err)
	}
	var damaged []int64
	for n := len(kept) - 1; n >= 0 && st == nil; n-- {
		at := kept[n].Offset
		st, err = mg.restore(ctx, s, at)
		switch {
		case err == nil:
		case ctx.Err() != nil, errors.Is(err, sessionlog.ErrFailed), errors.Is(err, sessionlog.ErrClosed), errors.Is(err, sessionlog.ErrNotFound):
			return nil, mg.storeError("reading a snapshot of session "+s.ID, err)
		default:
			mg.options.Report(fmt.Errorf("session: session %s: going on without its snapshot at offset %d: %w", s.ID, at, err))
			damaged = append(damaged, at)
			if cause == nil {
				cause = err
			}
		}
	}
	if st == nil {
		found, err := mg.options.Store.Get(ctx, s.ID)
		if err != nil {
			return nil, mg.storeError("looking for session "+s.ID, err)
		}
		if found.Start > 0 {
			bad := fmt.Errorf("its log begins at offset %d only, and there is no good snapshot", found.Start)
			if cause != nil {
				bad = fmt.Errorf("%w: %w", bad, cause)
			}
			return nil, &UnusableError{ID: s.ID, Err: bad}
		}
		st = stream.New(mg.model, s.Settings)
	}
	for _, at := range damaged {
		if err := mg.options.Store.DropSnapshot(ctx, s.ID, s.epoch, at); err != nil {
			return nil, mg.storeError("dropping a snapshot of session "+s.ID, err)
		}
	}
	return st, nil
}

// restore reads a snapshot.
func (mg *Manager) restore(ctx context.Context, s *session, at int64) (*stream.Stream, error) {
	select { // a copy of the state passes through memory
	case mg.copies <- struct{}{}:
		defer func() { <-mg.copies }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return restoreFrom(ctx, mg.model, mg.options.Store, s, at)
}

// replay computes a log again, chunk by chunk as requests do, so that nobody waits longer for it than for a request.
type replay struct {
	mg     *Manager
	s      *session
	stream *stream.Stream
	cost   time.Duration // computing
	exact  bool          // the totals must be those of the log
	told   bool          // that they were not
}

// replayError keeps errors of the replay apart from those of the store.
type replayError struct{ err error }

func (e *replayError) Error() string { return e.err.Error() }

// record is a visit of Store.Read.
func (r *replay) record(ctx context.Context, at int64, rec sessionlog.Record) error {
	have := r.stream.Tally.Bytes
	if err := r.feed(ctx, rec.Text[have-at:]); err != nil {
		return &replayError{err}
	}
	r.compare(rec.Bits, rec.Baseline)
	return nil
}

func (r *replay) feed(ctx context.Context, text []byte) error {
	for len(text) > 0 {
		if err := r.mg.goesOn(r.s); err != nil {
			return err
		}
		l, err := r.mg.scheduler.lease(ctx, r.s.job())
		if err != nil {
			return err
		}
		begun, w := time.Now(), l.worker()
		w.Settle(r.stream)
		n := min(len(text), r.stream.Room())
		w.Feed(r.stream, text[:n], nil)
		r.cost += time.Since(begun)
		l.release()
		text = text[n:]
	}
	return nil
}

// goesOn says why a replay should end.
func (mg *Manager) goesOn(s *session) error {
	mg.mu.Lock()
	defer mg.mu.Unlock()
	switch {
	case s.gone:
		return ErrNotFound
	case mg.draining:
		return ErrDraining
	}
	return nil
}

// compare holds the totals against those that were told, which stay in force.
func (r *replay) compare(bits, baseline float64) {
	st := r.stream
	wrong := math.Float64bits(st.Tally.Bits) != math.Float64bits(bits)
	if wrong && r.exact && !r.told {
		r.told = true
		r.mg.options.Report(&MismatchError{ID: r.s.ID, Offset: st.Tally.Bytes, Have: st.Tally.Bits, Want: bits})
	}
	st.Tally.Bits = bits
	if !st.Settings.Baseline {
		return
	}
	if math.Float64bits(st.Baseline.Bits) != math.Float64bits(baseline) && r.exact && !r.told {
		r.told = true
		r.mg.options.Report(&MismatchError{ID: r.s.ID, Offset: st.Tally.Bytes, Have: st.Baseline.Bits, Want: baseline, Baseline: true})
	}
	st.Baseline.Bits = baseline
}

// changeNumerics notes that the session goes on in another arithmetic. The snapshot comes first: the log before it cannot be computed again to the same
// bits here, and must not be needed once the head says that it is this arithmetic's.
func (mg *Manager) changeNumerics(ctx context.Context, s *session, before string) error {
	now := numerics{From: s.stream.Tally.Bytes, Name: mg.model.Arithmetic.Numerics()}
	mg.options.Report(fmt.Errorf("session: session %s was computed in %s up to offset %d, and goes on in %s: scores may differ by rounding from those it would have had",
		s.ID, before, now.From, now.Name))
	if err := mg.snapshot(ctx, s); err != nil {
		return mg.storeError("taking a snapshot of session "+s.ID, err)
	}
	h := s.head
	h.addNumerics(now)
	if err := mg.options.Store.SetHead(ctx, s.ID, s.epoch, h.encode()); err != nil {
		return mg.storeError("noting the arithmetic of session "+s.ID, err)
	}
	mg.mu.Lock()
	defer mg.mu.Unlock()
	s.Numerics = h.Numerics
	return nil
}
