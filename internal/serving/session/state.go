package session

import (
	"context"
	"time"

	"github.com/lmserve/lmserve/internal/arithmetic/stream"
)

// This file is a session's stream: how it comes into memory, and how it goes.

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

// tryLock locks the state if nobody has to be waited for.
func (s *session) tryLock() bool {
	select {
	case s.state <- struct{}{}:
		return true
	default:
		return false
	}
}

// unlock ends what lock has begun: from now on the stream may be dropped from memory.
func (s *session) unlock() {
	<-s.state
	s.memory.Rest()
}

// unlockOn unlocks the session if there is an error, which it returns.
func (s *session) unlockOn(err error) error {
	if err != nil {
		s.unlock()
	}
	return err
}

// open waits for the session's state, and makes its stream if it is not in memory. The context ends
// both waits; the computing of the stream takes no longer than a limit (0: as long as it takes), or
// the error is a *RecoveringError. The session is locked until its unlock.
func (s *session) open(ctx context.Context, limit time.Duration) error {
	begun := time.Now()
	if err := s.lock(ctx); err != nil {
		return err
	}
	return s.unlockOn(s.warmLocked(ctx, limit, begun))
}

// openCurrent is open for a request that reads the state and writes nothing: the store would not
// refuse it if another had claimed the session.
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

// openBlank makes the stream of a session of no text, which has no log to make it of. It may wait
// for memory, also for that of copies of the stream; the context ends the wait. The session is
// locked until its unlock.
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

// hold claims the session if others may have written to it.
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

// settleIn ends the making of a session. In a store that is not durable its state is made now, or
// there is no room for it, and what it was made of is dropped.
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

// warmLocked makes a cold session hot. What a recovery has done by the time that it is given up
// stays in memory like any state, and the next request continues from there. The request has waited
// since it begun.
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

// settleLocked ends the chunk, which is full. If the update that follows is to be measured, norms
// are what it has made of the fast weights; nil where there are none.
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

// computedLocked counts what a recovery would repeat.
func (s *session) computedLocked(took time.Duration) { s.replayCost += took }

// markUnusableLocked ends the use of a session whose state gives numbers that are not finite:
// whatever it is fed, it does not recover from them. The session stays as the store has it, and can
// be deleted. The error is an *UnusableError.
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

// evict drops the session from memory, unless somebody has begun to work on it. Without its
// snapshot it comes back all the same, only later.
func (s *session) evict() {
	if !s.tryLock() {
		return
	}
	defer s.unlock()
	s.giveUpLocked()
}
