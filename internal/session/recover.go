package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/lmserve/lmserve/internal/model"
	"github.com/lmserve/lmserve/internal/session/lifecycle"
	"github.com/lmserve/lmserve/internal/session/scheduler"
	"github.com/lmserve/lmserve/internal/sessionlog"
	"github.com/lmserve/lmserve/internal/stream"
)

// recoverer makes the streams of cold sessions from what the store has of them.
type recoverer struct {
	model     *model.Model
	journal   *journal
	snapshots *snapshots
	scheduler *scheduler.Scheduler
	life      *lifecycle.Lifecycle
	report    func(error)
}

// runLocked makes the stream that the log's end belongs to: the newest snapshot that is good, and
// the log after it computed again. It arrives at the bits that the stream had. The session is
// claimed.
func (r *recoverer) runLocked(ctx context.Context, s *liveSession) error {
	st, err := r.startLocked(ctx, s)
	if err != nil {
		return err
	}
	before := s.numerics()
	same := before.Name == r.model.Arithmetic.Numerics() && st.Tally.Bytes >= before.From
	t := &totalsCheck{stream: st, id: s.ID, exact: same, report: r.report}
	re := &replayer{
		stream: st, job: s.job(), scheduler: r.scheduler,
		goesOn:  func() error { return r.goesOn(s) },
		compare: func(rec sessionlog.Record) { t.adopt(rec.Bits, rec.Baseline) },
	}
	if err := re.run(ctx, r.journal.store); err != nil {
		return r.runError(s, err)
	}
	seen := s.seen()
	if st.Tally.Bytes != seen.offset {
		return &UnusableError{ID: s.ID, Err: fmt.Errorf("recovered up to offset %d, expected %d",
			st.Tally.Bytes, seen.offset)}
	}
	if !seen.blind {
		t.adopt(seen.tally.Bits, seen.baseline.Bits)
	}
	s.replay, s.due = re.cost, 0
	if !same {
		if err := r.changeNumericsLocked(ctx, s, st, before.Name); err != nil {
			return err
		}
	}
	s.stream, s.rms = st, st.FastRMS()
	s.publishLocked()
	return nil
}

// runError is what a request is told of a replay that came to no end.
func (r *recoverer) runError(s *liveSession, err error) error {
	var computing interrupted
	switch {
	case errors.As(err, &computing):
		return computing.error
	case errors.Is(err, sessionlog.ErrRange):
		return &UnusableError{ID: s.ID, Err: fmt.Errorf("there is no good snapshot, and its log does not begin at 0: %w", err)}
	}
	return storeError("replaying session "+s.ID, err)
}

// goesOn says why the replay of a session should end.
func (r *recoverer) goesOn(s *liveSession) error {
	if err := s.alive(); err != nil {
		return err
	}
	return r.life.Check()
}

// startLocked gives the stream that a replay starts from: that of the newest snapshot that is good,
// else that of an empty text. A damaged snapshot is dropped as soon as there is something to go on
// from without it: left there, it would push a good one out.
func (r *recoverer) startLocked(ctx context.Context, s *liveSession) (*stream.Stream, error) {
	kept, cause, err := r.list(ctx, s)
	if err != nil {
		return nil, err
	}
	var st *stream.Stream
	var bad []int64
	for n := len(kept) - 1; n >= 0 && st == nil; n-- {
		at := kept[n].Offset
		if st, err = r.snapshots.read(ctx, s, at); err == nil {
			break
		}
		if ctx.Err() != nil || !damaged(err) {
			return nil, storeError("reading a snapshot of session "+s.ID, err)
		}
		r.report(fmt.Errorf("session: session %s: going on without its snapshot at offset %d: %w",
			s.ID, at, err))
		bad = append(bad, at)
		if cause == nil {
			cause = err
		}
	}
	if st == nil {
		if st, err = r.empty(ctx, s, cause); err != nil {
			return nil, err
		}
	}
	for _, at := range bad {
		if err := r.journal.dropSnapshotLocked(ctx, s, at); err != nil {
			return nil, err
		}
	}
	return st, nil
}

// list lists the session's snapshots. If their index is damaged it lists none, and says why.
func (r *recoverer) list(
	ctx context.Context, s *liveSession,
) (kept []sessionlog.Snapshot, cause, err error) {
	kept, err = r.journal.store.Snapshots(ctx, s.ID)
	switch {
	case errors.Is(err, sessionlog.ErrCorrupt):
		r.report(fmt.Errorf("session: session %s: its snapshots are not used: %w", s.ID, err))
		return nil, err, nil
	case err != nil:
		return nil, nil, storeError("looking for snapshots of session "+s.ID, err)
	}
	return kept, nil, nil
}

// empty gives the stream of an empty text. cause is why no snapshot was good; nil if there was
// none.
func (r *recoverer) empty(
	ctx context.Context, s *liveSession, cause error,
) (*stream.Stream, error) {
	found, err := r.journal.get(ctx, s)
	if err != nil {
		return nil, err
	}
	if found.Start > 0 {
		bad := fmt.Errorf("its log begins at offset %d only, and there is no good snapshot",
			found.Start)
		if cause != nil {
			bad = fmt.Errorf("%w: %w", bad, cause)
		}
		return nil, &UnusableError{ID: s.ID, Err: bad}
	}
	return stream.New(r.model, s.Settings), nil
}

// changeNumericsLocked notes that the session goes on in another arithmetic. The snapshot comes
// first: the log before it cannot be computed again to the same bits here, and must not be needed
// once the head says that the arithmetic is this one.
func (r *recoverer) changeNumericsLocked(
	ctx context.Context, s *liveSession, st *stream.Stream, before string,
) error {
	now := numerics{From: st.Tally.Bytes, Name: r.model.Arithmetic.Numerics()}
	r.report(fmt.Errorf("session: session %s was computed in %s up to offset %d, and goes on in %s: "+
		"scores may differ by rounding from those it would have had", s.ID, before, now.From, now.Name))
	if err := r.snapshots.writeLocked(ctx, s, st); err != nil {
		return err
	}
	h := s.head
	h.noteNumerics(now)
	if err := r.journal.setHeadLocked(ctx, s, &h); err != nil {
		return err
	}
	s.noteNumericsLocked(h.Numerics)
	return nil
}

// totalsCheck compares the totals that a replay comes to with those that were told.
type totalsCheck struct {
	stream   *stream.Stream
	id       string
	exact    bool // the arithmetic is the same: the totals must be, too
	report   func(error)
	reported bool
}

// adopt compares, reports the first difference, and lets the totals that were told stay in force.
func (t *totalsCheck) adopt(bits, baseline float64) {
	if wrong := mismatch(t.id, t.stream, bits, baseline); wrong != nil && t.exact && !t.reported {
		t.reported = true
		t.report(wrong)
	}
	t.stream.Tally.Bits = bits
	if t.stream.Settings.Baseline {
		t.stream.Baseline.Bits = baseline
	}
}
