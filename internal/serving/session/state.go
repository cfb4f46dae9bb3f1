package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/serving/session/budget"
	"github.com/lmserve/lmserve/internal/serving/session/scheduler"
)

// This file is a session's stream: how it comes into memory, and how it goes.

// errSnapshotDue pauses a restoration, which continues at once when the snapshot is taken.
var errSnapshotDue = errors.New("a snapshot is due")

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
// for memory, also for that of the copies that a generation makes; the context ends the wait. The
// session is locked until its unlock.
func (s *session) openBlank(ctx context.Context) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	s.memory.Work()
	need := (1 + frozenMax) * stream.StateBytes(s.model.Model, s.Settings)
	m, err := s.host.reserveFor(ctx, s.memory, s.model, need)
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
		if s.weights, err = s.host.reserveFor(ctx, s.memory, s.model, need); err != nil {
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

// restoreLocked makes the session's stream, within a limit. A long recovery takes snapshots on its
// way.
func (s *session) restoreLocked(ctx context.Context, limit time.Duration) error {
	from, until := s.restorableLocked(), time.Now().Add(limit)
	from.more = func(r *restoration) error {
		s.replayCost = r.cost
		now := Recovery{Done: r.stream.Offset() - r.from, Of: from.end.offset - r.from}
		s.noteRecovery(now)
		switch err := s.alive(); {
		case err != nil:
			return err
		case r.exact && s.host.store.Durable() && s.snapshotDueLocked():
			return errSnapshotDue
		case limit > 0 && time.Now().After(until):
			return &RecoveringError{now}
		}
		return s.host.life.Check()
	}
	for {
		if s.paused != nil {
			s.paused.cost = s.replayCost // which a snapshot has made 0
		}
		r, err := restore(ctx, from, s.paused)
		s.paused = nil
		if r == nil || s.alive() != nil {
			return cmp.Or(err, s.alive())
		}
		if err := s.dropDamagedLocked(context.WithoutCancel(ctx), r); err != nil {
			return err
		}
		if err != nil {
			s.paused = r
		}
		if errors.Is(err, errSnapshotDue) {
			if s.snapshotLocked(context.Background()); s.paused == nil {
				return fmt.Errorf("%w: it was claimed while its state was restored", ErrElsewhere)
			}
			from.job = s.job() // somebody may have asked for it meanwhile
			continue
		}
		if err != nil {
			return err
		}
		return s.restoredLocked(ctx, r)
	}
}

// restorableLocked is what the store has of the session.
func (s *session) restorableLocked() *restorable {
	h := s.host
	return &restorable{
		head: &s.head, model: s.weights, log: h.store,
		snapshots: limitedSnapshots{h.store, h.snapshots.slots},
		scheduler: h.scheduler, job: s.job(), end: s.seen(),
		replayed: h.observer.Replayed, logError: h.logError,
	}
}

// restoredLocked makes the restored stream the session's. If the session continues in another
// arithmetic, a snapshot comes first: the log before it cannot be computed again to the same bits
// here, and must not be needed once the head says that the arithmetic is this one.
func (s *session) restoredLocked(ctx context.Context, r *restoration) error {
	s.replayCost, s.snapshotAt = r.cost, 0
	if h := r.changed; h != nil {
		was, now := s.numerics(), h.numerics()
		s.host.logError(fmt.Errorf("session: session %s was computed in %s up to offset %d, "+
			"and goes on in %s: scores may differ by rounding from those it would have had",
			s.ID, was.Name, now.From, now.Name))
		if err := s.writeStateLocked(ctx, r.stream); err != nil {
			return err
		}
		if err := s.setHeadLocked(ctx, h); err != nil {
			return err
		}
		s.noteHeadLocked(h)
	}
	s.stream, s.rms = r.stream, r.stream.FastRMS()
	s.noteRecovery(Recovery{})
	s.publishLocked()
	return nil
}

// job is what the session wants a worker for. The work for a shadow is behind all other, unless
// somebody asks for the shadow itself: then what it is being fed is ahead of that, and no less
// urgent.
func (s *session) job() scheduler.Job {
	return scheduler.Job{
		Key: s.Owner, Session: s.ID, Model: s.weights, Chunk: s.Settings.Chunk,
		Behind: s.shadowOf() != "" && s.asked.Load() == 0,
	}
}

// publishLocked shows callers where the stream is.
func (s *session) publishLocked() {
	p := progressOf(s.stream)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.seen = p
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

// reserveFor takes memory for a state of a model, and gives the model with its weights. The account
// has nothing if that fails.
func (h *host) reserveFor(
	ctx context.Context, account *budget.Account[*session], of *servedModel, need int64,
) (m *model.Model, err error) {
	if err := h.reserve(ctx, account, need); err != nil {
		return nil, err
	}
	if m, err = of.weights(ctx); err != nil {
		account.Release()
	}
	return m, err
}

// reserve takes memory for a state. It drops the sessions that were not used for the longest time,
// and if all are at work it waits; the context ends the wait. It takes sessions' locks only where
// it does not have to wait for them.
func (h *host) reserve(
	ctx context.Context, account *budget.Account[*session], need int64,
) error {
	for {
		want, err := account.Reserve(need)
		switch {
		case err != nil:
			return memoryError(err)
		case want.Asked:
			want.Victim.evict()
			continue
		case want.Changed == nil:
			return nil
		}
		select {
		case <-want.Changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// reserveNow takes memory beside what the account of a session at work has, and reports whether
// there was any. It does not wait, so that nobody waits who has what others wait for.
func (h *host) reserveNow(
	account *budget.Account[*session], need int64,
) (reserved bool, err error) {
	for {
		want, err := account.Reserve(need)
		switch {
		case err != nil:
			return false, memoryError(err)
		case want.Asked:
			want.Victim.evict()
		default:
			return want.Changed == nil, nil
		}
	}
}

// memoryError is the error of a request that got no memory.
func memoryError(err error) error {
	var full *budget.FullError
	switch {
	case errors.As(err, &full):
		return fmt.Errorf("%w: %w", ErrFull, err)
	case errors.Is(err, budget.ErrClosed):
		return ErrNotFound
	}
	return err
}
