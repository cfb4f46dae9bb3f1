package session

import (
	"context"
	"time"

	"github.com/lmserve/lmserve/internal/arithmetic/stream"
)

func (s *session) lock(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case s.state <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *session) tryLock() bool {
	select {
	case s.state <- struct{}{}:
		return true
	default:
		return false
	}
}

// unlock releases the state. From then on the stream may be dropped from memory.
func (s *session) unlock() {
	<-s.state
	s.memory.Rest()
}

func (s *session) unlockOn(err error) error {
	if err != nil {
		s.unlock()
	}
	return err
}

// open locks the session, and recovers its stream if the stream is not in memory. The context ends
// the waits. If the recovery takes longer than limit, the error is a *RecoveringError; limit 0
// means no limit. On success the caller must call unlock.
func (s *session) open(ctx context.Context, limit time.Duration) error {
	begun := time.Now()
	if err := s.lock(ctx); err != nil {
		return err
	}
	return s.unlockOn(s.warmLocked(ctx, limit, begun))
}

// openCurrent is open for a request that only reads the state. It checks the claim, because only
// writes fail if another server has claimed the session.
func (s *session) openCurrent(ctx context.Context, limit time.Duration) error {
	begun := time.Now()
	if err := s.lock(ctx); err != nil {
		return err
	}
	err := s.currentLocked(ctx)
	if err == nil {
		err = s.warmLocked(ctx, limit, begun)
	}
	return s.unlockOn(err)
}

// openBlank locks a session without text, and makes its stream. It waits for memory for the stream
// and for copies of the stream, until the context ends. On success the caller must call unlock.
func (s *session) openBlank(ctx context.Context, copies int64) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	s.memory.Work()
	need := (1 + copies) * stream.StateBytes(s.model.Model, s.Settings)
	m, err := reserveState(ctx, s.memory, s.model, need)
	if err == nil {
		s.weights, s.stream = m, stream.New(m, s.Settings)
	}
	return s.unlockOn(err)
}

// hold claims the session if other servers may have written to it.
func (s *session) hold(ctx context.Context) error {
	if s.isKnown() {
		return nil
	}
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	return s.claimLocked(ctx)
}

// settleIn completes the making of a session. If the store is not durable, it makes the state,
// which stays in memory, and drops the session's snapshots. It fails if there is no memory for the
// state.
func (s *session) settleIn(ctx context.Context) error {
	if s.host.store.Durable() {
		return nil
	}
	if err := s.open(ctx, 0); err != nil {
		return err
	}
	defer s.unlock()
	return s.dropSnapshotsLocked(ctx)
}

// warmLocked recovers the session's stream if the stream is not in memory. If the recovery stops,
// its progress stays in memory like any state, and the next request continues it. The request has
// waited since the time begun.
func (s *session) warmLocked(ctx context.Context, limit time.Duration, begun time.Time) error {
	s.memory.Work()
	observer := s.host.observer
	if s.stream != nil {
		phaseSince(ctx, observer, PhaseOpen, begun)
		return nil
	}
	err := s.claimLocked(ctx)
	if err != nil {
		return err
	}
	if s.paused == nil {
		need := s.stateBytes(s.model.Model)
		if s.weights, err = reserveState(ctx, s.memory, s.model, need); err != nil {
			return err
		}
		s.replayCost, s.snapshotAt = 0, 0
	}
	begun = phaseSince(ctx, observer, PhaseOpen, begun)
	err = s.restoreLocked(ctx, limit)
	phaseSince(ctx, observer, PhaseRecover, begun)
	if err != nil && s.paused == nil {
		s.dropLocked()
	}
	return err
}

// settleLocked ends a full chunk. If measured is set, it returns the norms of the fast weights
// after the update, or nil if there are no fast weights.
func (s *session) settleLocked(
	w *stream.Worker, measured bool,
) (settled stream.Settled, norms []stream.BranchNorm, took time.Duration) {
	begun := time.Now()
	if measured {
		settled, norms = w.SettleMeasured(s.stream)
	} else {
		settled = w.Settle(s.stream)
	}
	s.rms = s.stream.FastRMS()
	took = time.Since(begun)
	s.replayCost += took
	return settled, norms, took
}

// markUnusableLocked ends the use of a session whose state gives numbers that are not finite. A
// recovery would give the same numbers. The session stays in the store, and can be deleted. The
// error is an *UnusableError.
func (s *session) markUnusableLocked(why error) error {
	s.mu.Lock()
	s.mu.bad = why
	s.mu.Unlock()
	s.dropLocked()
	s.watchers.end(s.unusable())
	return s.unusable()
}

// giveUpLocked drops the session's state from memory, after a snapshot if that saves enough
// computing.
func (s *session) giveUpLocked() {
	s.saveLocked(context.Background())
	s.dropLocked()
}

// evict drops the session's state from memory, unless a request uses the session. If the snapshot
// fails, the next recovery only takes longer.
func (s *session) evict() {
	if !s.tryLock() {
		return
	}
	defer s.unlock()
	s.giveUpLocked()
}
