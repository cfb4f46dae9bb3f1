package session

import (
	"context"
	"time"

	"github.com/lmserve/lmserve/internal/arithmetic/stream"
)

// This file loads a session's stream into memory and drops it.

// lock waits for the session's state; the context ends the wait.
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

// tryLock locks the state if it is free, and reports whether it did.
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

// unlockOn unlocks the session if err is not nil, and returns err.
func (s *session) unlockOn(err error) error {
	if err != nil {
		s.unlock()
	}
	return err
}

// open waits for the session's state, and recovers its stream if it is not in memory. The context
// ends both waits. A recovery longer than limit (0 means no limit) returns a *RecoveringError. On
// success the session is locked until its unlock.
func (s *session) open(ctx context.Context, limit time.Duration) error {
	begun := time.Now()
	if err := s.lock(ctx); err != nil {
		return err
	}
	return s.unlockOn(s.warmLocked(ctx, limit, begun))
}

// openCurrent is open for a request that only reads the state. It checks the claim: without a
// write, the store would not notice that another server has claimed the session.
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

// openBlank makes the stream of a session without text, which has no log. It may wait for memory
// for the stream and for copies of the stream. The context ends the wait. The session is locked
// until its unlock.
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

// settleIn completes the making of a session. If the store is not durable, it makes the state now,
// and drops the snapshots from which it was made. It fails if there is no memory for the state.
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

// warmLocked makes a cold session hot. When a recovery is stopped, its progress stays in memory
// like any state, and the next request continues it. The request has been waiting since the time
// begun.
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
	s.computedLocked(took)
	return settled, norms, took
}

// computedLocked adds to the computing time that a recovery would repeat.
func (s *session) computedLocked(took time.Duration) { s.replayCost += took }

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

// giveUpLocked drops the session from memory.
func (s *session) giveUpLocked() {
	s.saveLocked(context.Background())
	s.dropLocked()
}

// evict drops the session from memory, unless a request uses it. If its snapshot fails, the next
// recovery only takes longer.
func (s *session) evict() {
	if !s.tryLock() {
		return
	}
	defer s.unlock()
	s.giveUpLocked()
}
