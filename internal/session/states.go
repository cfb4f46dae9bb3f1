package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lmserve/lmserve/internal/model"
	"github.com/lmserve/lmserve/internal/session/budget"
	"github.com/lmserve/lmserve/internal/session/disk"
	"github.com/lmserve/lmserve/internal/sessionlog"
	"github.com/lmserve/lmserve/internal/stream"
)

// states keeps the states in memory within their budget: who comes in, who goes out, and the
// snapshots that make it cheap to come back.
type states struct {
	journal   *journal
	snapshots *snapshots
	recoverer *recoverer
	budget    *budget.Budget[*liveSession]
	room      *disk.Guard
	replayMax time.Duration
	report    func(error)
	told      Observer
}

// store is where the sessions are.
func (st *states) store() sessionlog.Store { return st.journal.store }

// open waits for a session's state, and makes its stream if it is not in memory. The context ends
// both waits. The session is locked until its unlock.
func (st *states) open(ctx context.Context, s *liveSession) error {
	return st.openWithin(ctx, s, 0)
}

// openWithin is open for a request that does not wait longer than a limit for the computing of the
// stream (0: as long as it takes). Then the error is a *RecoveringError.
func (st *states) openWithin(ctx context.Context, s *liveSession, limit time.Duration) error {
	begun := time.Now()
	if err := s.lock(ctx); err != nil {
		return err
	}
	err := st.warmLocked(ctx, s, limit, begun)
	if err != nil {
		s.unlock()
	}
	return err
}

// openCurrent is openWithin for a request that reads the state and writes nothing: the store would
// not refuse it if another had claimed the session.
func (st *states) openCurrent(ctx context.Context, s *liveSession, limit time.Duration) error {
	begun := time.Now()
	if err := s.lock(ctx); err != nil {
		return err
	}
	err := st.journal.currentLocked(ctx, s)
	if err == nil {
		err = st.warmLocked(ctx, s, limit, begun)
	}
	if err != nil {
		s.unlock()
	}
	return err
}

// openBlank makes the stream of a session of no text, which has no log to make it of. It may wait
// for memory, also for that of the copies that a generation makes; the context ends the wait. The
// session is locked until its unlock.
func (st *states) openBlank(ctx context.Context, s *liveSession) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	s.memory.Work()
	need := (1 + frozenMax) * stream.StateBytes(s.model.Model, s.Settings)
	m, err := st.reserveFor(ctx, s.memory, s.model, need)
	if err != nil {
		s.unlock()
		return err
	}
	s.weights, s.stream = m, stream.New(m, s.Settings)
	return nil
}

// refresh finds out what the store has of a session that others may have written to.
func (st *states) refresh(ctx context.Context, s *liveSession) error {
	known := !s.isStale()
	if st.journal.sharing != nil {
		known = st.journal.holds(s)
	}
	if known {
		return nil
	}
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	return st.journal.claimLocked(ctx, s)
}

// warmLocked makes a cold session hot. What a recovery has done by the time that it is given up
// stays in memory like any state, and the next request goes on from there. The request has waited
// since it begun.
func (st *states) warmLocked(
	ctx context.Context, s *liveSession, limit time.Duration, begun time.Time,
) error {
	s.memory.Work()
	if s.stream != nil {
		phaseSince(ctx, st.told, PhaseOpen, begun)
		return nil
	}
	if err := st.journal.claimLocked(ctx, s); err != nil {
		return err
	}
	if s.begun == nil {
		if err := st.reserveLocked(ctx, s); err != nil {
			return err
		}
	}
	begun = phaseSince(ctx, st.told, PhaseOpen, begun)
	err := st.recoverLocked(ctx, s, limit)
	phaseSince(ctx, st.told, PhaseRecover, begun)
	if err != nil && s.begun == nil {
		s.dropLocked()
	}
	return err
}

// recoverLocked makes the session's stream. A long recovery takes snapshots on its way.
func (st *states) recoverLocked(ctx context.Context, s *liveSession, limit time.Duration) error {
	var until time.Time
	if limit > 0 {
		until = time.Now().Add(limit)
	}
	for {
		err := st.recoverer.runLocked(ctx, s, until)
		if !errors.Is(err, errDue) {
			return err
		}
		st.keepLocked(context.Background(), s)
	}
}

// reserveLocked takes memory for a session's stream, and loads the weights that it needs.
func (st *states) reserveLocked(ctx context.Context, s *liveSession) (err error) {
	s.weights, err = st.reserveFor(ctx, s.memory, s.model, s.stateBytes(s.model.Model))
	return err
}

// reserveFor takes memory for a state of a model, and gives the model with its weights. The account
// has nothing if that fails.
func (st *states) reserveFor(
	ctx context.Context, account *budget.Account[*liveSession], of *servedModel, need int64,
) (m *model.Model, err error) {
	if err := st.reserve(ctx, account, need); err != nil {
		return nil, err
	}
	if m, err = of.weights(ctx); err != nil {
		account.Release()
	}
	return m, err
}

// reserveNow takes memory beside what the account of a session at work has, and reports whether
// there was any. It does not wait, so that nobody waits who has what others wait for.
func (st *states) reserveNow(
	account *budget.Account[*liveSession], need int64,
) (reserved bool, err error) {
	for {
		want, err := account.Reserve(need)
		switch {
		case err != nil:
			return false, memoryError(err)
		case want.Asked:
			st.evict(want.Victim)
		default:
			return want.Changed == nil, nil
		}
	}
}

// reserve takes memory for a state. It drops the sessions that were not used for the longest time,
// and if all are at work it waits; the context ends the wait. It takes sessions' locks only where
// it does not have to wait for them.
func (st *states) reserve(
	ctx context.Context, account *budget.Account[*liveSession], need int64,
) error {
	for {
		want, err := account.Reserve(need)
		switch {
		case err != nil:
			return memoryError(err)
		case want.Asked:
			st.evict(want.Victim)
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

// evict drops a session from memory, unless somebody has begun to work on it. Without its snapshot
// it comes back all the same, only later.
func (st *states) evict(s *liveSession) {
	if !s.tryLock() {
		return
	}
	defer s.unlock()
	st.giveUpLocked(s)
}

// giveUpLocked drops a session from memory.
func (st *states) giveUpLocked(s *liveSession) {
	if s.stateLocked() != nil && s.replay >= replayWorth {
		st.keepLocked(context.Background(), s)
	}
	s.dropLocked()
}

// keepIfDueLocked takes a snapshot when a recovery would repeat too much.
func (st *states) keepIfDueLocked(s *liveSession) {
	if s.stream != nil && s.dueLocked(st.replayMax) {
		st.keepLocked(context.Background(), s)
	}
}

// keepLocked makes it cheap to recover the session's state, as far as the store has use for that and
// the context lasts. No request is to blame if that fails: the failure is reported, and the snapshot
// is tried again when as much has been computed once more.
func (st *states) keepLocked(ctx context.Context, s *liveSession) {
	state := s.stateLocked()
	at := state.Offset()
	if !st.store().Durable() {
		st.trimTailLocked(s, at)
		return
	}
	if !st.mayKeep(s) {
		s.due = s.replay + st.replayMax
		return
	}
	err := st.snapshots.writeLocked(ctx, s, state)
	if err == nil || s.isGone(err) {
		return
	}
	s.due = s.replay + st.replayMax
	st.report(fmt.Errorf("session: session %s: keeping its state at offset %d: %w", s.ID, at, err))
}

// mayKeep says whether there is room for one more snapshot of a session. At its key's limit a
// session gets none, which costs little: it takes no more text there either, so that a recovery
// repeats no more than before. Below the limit a snapshot may go beyond it.
func (st *states) mayKeep(s *liveSession) bool {
	return st.room.Room(s.Owner, 1) == nil &&
		st.room.Fits(s.stateBytes(s.model.Model)) == nil
}

// hasRoom says whether there is room for all of one more snapshot of a session.
func (st *states) hasRoom(s *liveSession) bool {
	return st.room.Room(s.Owner, s.stateBytes(s.model.Model)) == nil
}

// trimTailLocked is what keepLocked comes to in a store that is not durable: there is no recovery
// to make cheap, but text that nobody needs any more.
func (st *states) trimTailLocked(s *liveSession, at int64) {
	if s.History != HistoryTail {
		return
	}
	if err := st.snapshots.trimVolatileLocked(context.Background(), s); err != nil && !s.isGone(err) {
		st.report(fmt.Errorf("session: session %s: its text before offset %d is not trimmed: %w",
			s.ID, at, err))
	}
	s.due = s.replay + st.replayMax // a fork computes no less than before: replay stays
}

// keepAll takes snapshots of what is hot, when nobody is at work any more. What the context leaves
// out is computed again after a restart.
func (st *states) keepAll(ctx context.Context) {
	for {
		s, ok := st.budget.Victim()
		if !ok || s.lock(ctx) != nil {
			return
		}
		if s.stateLocked() != nil && s.replay >= replayWorth {
			st.keepLocked(context.Background(), s)
		}
		<-s.state // a session that stays hot does not come up again
	}
}
