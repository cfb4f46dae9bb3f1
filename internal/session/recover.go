package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lmserve/lmserve/internal/session/lifecycle"
	"github.com/lmserve/lmserve/internal/session/scheduler"
	"github.com/lmserve/lmserve/internal/sessionlog"
	"github.com/lmserve/lmserve/internal/stream"
	"github.com/lmserve/lmserve/tokenizer"
)

// recoverer makes the streams of cold sessions from what the store has of them.
type recoverer struct {
	journal   *journal
	snapshots *snapshots
	scheduler *scheduler.Scheduler
	life      *lifecycle.Lifecycle
	replayMax time.Duration // computing after which a snapshot is due
	report    func(error)
	told      Observer
}

// errDue is why a recovery is given up for now, and goes on at once. Others are the end of a context,
// and a *RecoveringError, which is told to a request that waits no longer.
var errDue = errors.New("a snapshot is due")

// runLocked makes the stream that the log's end belongs to: the newest snapshot that is good, and
// the log after it computed again. It arrives at the bits that the stream had. The session is
// claimed.
//
// The recovery is given up between two chunks when the context ends, after until (zero: never), and
// when a snapshot of it is due. Then the session has what was begun, and the next run goes on from
// there.
func (r *recoverer) runLocked(ctx context.Context, s *liveSession, until time.Time) error {
	rec, err := r.beginLocked(ctx, s)
	if err != nil {
		return err
	}
	st, t := rec.stream, &totalsCheck{recovery: rec, id: s.ID, report: r.report}
	re := &replayer{
		stream: st, job: s.job(), scheduler: r.scheduler, cost: s.replay, compare: t.compare,
	}
	re.goesOn = func() error {
		s.replay = re.cost
		return r.goesOnLocked(s, rec, until)
	}
	s.begun = nil
	from := st.Offset()
	err = re.run(ctx, r.journal.store)
	r.told.Replayed(st.Offset() - from)
	if err != nil {
		if givenUp(ctx, err) && s.alive() == nil {
			s.begun, s.replay = rec, re.cost
		}
		return r.runError(s, err)
	}
	return r.endLocked(ctx, s, re.cost, t)
}

// beginLocked gives the recovery that was begun, or begins one.
func (r *recoverer) beginLocked(ctx context.Context, s *liveSession) (*recovery, error) {
	if s.begun != nil {
		return s.begun, nil
	}
	st, err := r.startLocked(ctx, s)
	if err != nil {
		return nil, err
	}
	s.replay, s.due = 0, 0
	before := s.numerics()
	same := before.Name == s.model.Arithmetic.Numerics() && st.Offset() >= before.From
	return &recovery{stream: st, from: st.Offset(), exact: same}, nil
}

// endLocked gives the session the stream of a recovery that has come to the log's end.
func (r *recoverer) endLocked(
	ctx context.Context, s *liveSession, cost time.Duration, t *totalsCheck,
) error {
	st, seen := t.stream, s.seen()
	if st.Offset() != seen.offset {
		return &UnusableError{ID: s.ID, Err: fmt.Errorf("recovered up to offset %d, expected %d",
			st.Offset(), seen.offset)}
	}
	if !seen.blind {
		t.adopt(seen.tally, seen.baseline)
	}
	s.replay, s.due = cost, 0
	if !t.exact {
		if err := r.changeNumericsLocked(ctx, s, st, s.numerics().Name); err != nil {
			return err
		}
	}
	s.stream, s.rms = st, st.FastRMS()
	s.noteRecovery(Recovery{})
	s.publishLocked()
	return nil
}

// givenUp reports whether a replay that came to no end can go on where it was.
func givenUp(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.As(err, new(interrupted))
}

// runError is the error of a request whose replay came to no end.
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

// goesOnLocked says why the replay of a session should end before its next chunk.
func (r *recoverer) goesOnLocked(s *liveSession, rec *recovery, until time.Time) error {
	if err := s.alive(); err != nil {
		return err
	}
	now := Recovery{Done: rec.stream.Offset() - rec.from, Of: s.seen().offset - rec.from}
	s.noteRecovery(now)
	switch {
	case rec.exact && r.journal.store.Durable() && s.dueLocked(r.replayMax):
		return errDue
	case !until.IsZero() && time.Now().After(until):
		return &RecoveringError{now}
	}
	return r.life.Check()
}

// startLocked gives the stream that a replay starts from: that of the newest snapshot that is good,
// else that of an empty text. A damaged snapshot is dropped as soon as there is something to go on
// from without it: left there, it would be kept in the place of a good one.
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
	return s.emptyStream(s.weights), nil
}

// changeNumericsLocked notes that the session goes on in another arithmetic. The snapshot comes
// first: the log before it cannot be computed again to the same bits here, and must not be needed
// once the head says that the arithmetic is this one.
func (r *recoverer) changeNumericsLocked(
	ctx context.Context, s *liveSession, st *stream.Stream, before string,
) error {
	now := numerics{From: st.Offset(), Name: s.model.Arithmetic.Numerics()}
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
	s.noteHeadLocked(&h)
	return nil
}

// totalsCheck compares the totals that a replay comes to with those that clients were told.
type totalsCheck struct {
	*recovery
	id     string
	report func(error)
}

// compare adopts the totals of a record, unless they were not computed when it was written.
func (t *totalsCheck) compare(r sessionlog.Record) {
	if r.UnixMS != uncounted {
		t.adopt(totalsOf(&r, t.stream.Offset()))
	}
}

// adopt compares, reports the first difference, and keeps the totals that clients were told.
func (t *totalsCheck) adopt(tally, baseline tokenizer.Tally) {
	wrong := mismatch(t.id, t.stream, tally.Bits, baseline.Bits)
	if wrong != nil && t.exact && !t.reported {
		t.reported = true
		t.report(wrong)
	}
	st := t.stream
	st.Tally.Bits, st.Tally.UnknownBits = tally.Bits, tally.UnknownBits
	st.Tally.Chars = tally.Chars // older programs took every byte for a character
	if st.Settings.Baseline {
		st.Baseline.Chars = tally.Chars
		st.Baseline.Bits, st.Baseline.UnknownBits = baseline.Bits, baseline.UnknownBits
	}
}
