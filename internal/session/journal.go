package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/lmserve/lmserve/internal/sessionlog"
)

// journal is the store as sessions read and write it. Every write to a session names the session's
// epoch. What changes a session goes through writeLocked, the one place that reacts to a store that
// has let another write, or does not know whether it has written; deletions, which do not wait for
// what is at work on the session, have their own rules (delete, discard).
type journal struct {
	store   sessionlog.Store
	sharing *sharing // nil: the store is this Manager's alone
	report  func(error)
	told    Observer
	// vanished is called with a session that the store has no more, because another server that
	// shares the store has deleted it.
	vanished func(*liveSession)
	// claimed is called with a session that was claimed: its head is the store's, which another may
	// have changed, or a request that was not told so.
	claimed func(*liveSession)
}

// missed looks whether an error says that the session has vanished.
func (j *journal) missed(s *liveSession, err error) {
	if errors.Is(err, sessionlog.ErrNotFound) {
		j.vanished(s)
	}
}

// writeLocked carries out a write under the session's epoch. If the store has let another write to
// the session, or nobody knows whether this write was made, the session's stream and claim are
// dropped: the next request claims the session anew and reads what there is. Any other error leaves
// the session as it was. what names the write in errors.
func (j *journal) writeLocked(s *liveSession, what string, do func(epoch uint64) error) error {
	err := do(s.epoch())
	if err == nil {
		return nil
	}
	if moved(err) {
		j.told.Fenced()
		s.forsakeLocked()
		if j.sharing != nil {
			s.watchers.cut(fmt.Errorf("%w: %w", ErrUnavailable, err))
		}
	}
	return storeError(what+" session "+s.ID, err)
}

// holds reports whether this Manager is the one who may write to the session.
func (j *journal) holds(s *liveSession) bool {
	if j.sharing == nil {
		return s.isClaimed()
	}
	return j.sharing.holds(s)
}

// claimLocked makes this Manager the one who may write to the session, unless it is already.
func (j *journal) claimLocked(ctx context.Context, s *liveSession) error {
	if j.holds(s) {
		return nil
	}
	if err := j.sharing.mayClaim(); err != nil {
		return err
	}
	if s.isClaimed() { // in a term that is over: another may have claimed and changed the session since
		s.forsakeLocked()
	}
	term := j.sharing.term() // before the claim, which may be another's in the next
	found, err := j.store.Claim(ctx, s.ID)
	if err != nil {
		j.missed(s, err)
		return storeError("claiming session "+s.ID, err)
	}
	h, err := decodeHead(s.ID, found.Head) // another may have changed it
	if err != nil {
		return &UnusableError{ID: s.ID, Err: err}
	}
	if err := h.checkEnd(found); err != nil {
		return &UnusableError{ID: s.ID, Err: err}
	}
	s.noteHeadLocked(&h)
	s.claimedLocked(found)
	s.claimIn(term)
	j.told.Claimed(found.Taken)
	j.claimed(s)
	return nil
}

// heldLocked finds out whether the claim is still in force, for requests that write nothing:
// without it a completion would go on from a state that is not the session's any more.
func (j *journal) heldLocked(ctx context.Context, s *liveSession) error {
	return j.writeLocked(s, "looking for", func(epoch uint64) error {
		found, err := j.store.Get(ctx, s.ID)
		j.missed(s, err)
		if err == nil && found.Epoch != epoch {
			return &sessionlog.FencedError{Session: s.ID, Have: found.Epoch, Want: epoch}
		}
		return err
	})
}

// currentLocked makes sure that the session's claim is in force: one that another has taken over is
// claimed anew, and what was in memory is forgotten.
func (j *journal) currentLocked(ctx context.Context, s *liveSession) error {
	if j.holds(s) {
		if err := j.heldLocked(ctx, s); err != nil && !moved(err) {
			return err
		}
	}
	return j.claimLocked(ctx, s)
}

// look reads what the store has of a session that may have been written by others.
func (j *journal) look(ctx context.Context, s *liveSession) error {
	found, err := j.get(ctx, s)
	if err == nil {
		s.saw(found)
	}
	return err
}

func (j *journal) get(ctx context.Context, s *liveSession) (sessionlog.Session, error) {
	found, err := j.store.Get(ctx, s.ID)
	if err != nil {
		j.missed(s, err)
		return found, storeError("looking for session "+s.ID, err)
	}
	return found, nil
}

// create makes the session in the store.
func (j *journal) create(ctx context.Context, s *liveSession, start int64) error {
	term := j.sharing.term()
	epoch, err := j.make(s.most, func(store sessionlog.Store) (uint64, error) {
		return store.Create(ctx, s.ID, s.encode(), start)
	})
	return j.made(s, epoch, term, err)
}

// fork makes a session in the store that shares what another has.
func (j *journal) fork(ctx context.Context, from, to *liveSession, cut sessionlog.Cut) error {
	term := j.sharing.term()
	epoch, err := j.make(to.most, func(store sessionlog.Store) (uint64, error) {
		return store.Fork(ctx, from.ID, to.ID, to.encode(), cut)
	})
	j.missed(from, err)
	return j.made(to, epoch, term, err)
}

// made notes the claim on a session that was made. If nobody knows whether it was made, nothing may
// be left.
func (j *journal) made(s *liveSession, epoch, term uint64, err error) error {
	if err != nil {
		if errors.Is(err, sessionlog.ErrUnknown) {
			j.discard(s)
		}
		return storeError("making session "+s.ID, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.epoch, s.mu.claimed, s.mu.term = epoch, true, term
	return nil
}

func (j *journal) appendLocked(
	ctx context.Context, s *liveSession, at int64, records ...sessionlog.Record,
) error {
	return j.writeLocked(s, "appending to the log of", func(epoch uint64) error {
		err := j.store.Append(ctx, s.ID, epoch, at, records...)
		j.missed(s, err)
		return err
	})
}

func (j *journal) setHeadLocked(ctx context.Context, s *liveSession, h *head) error {
	return j.writeLocked(s, "writing the head of", func(epoch uint64) error {
		return j.store.SetHead(ctx, s.ID, epoch, h.encode())
	})
}

func (j *journal) trimLocked(ctx context.Context, s *liveSession, before int64) error {
	return j.writeLocked(s, "trimming the log of", func(epoch uint64) error {
		return j.store.Trim(ctx, s.ID, epoch, before)
	})
}

func (j *journal) writeSnapshotLocked(
	ctx context.Context, s *liveSession, at int64, write func(io.Writer) error,
) error {
	return j.writeLocked(s, "taking a snapshot of", func(epoch uint64) error {
		return j.store.WriteSnapshot(ctx, s.ID, epoch, at, write)
	})
}

func (j *journal) dropSnapshotLocked(ctx context.Context, s *liveSession, at int64) error {
	return j.writeLocked(s, "dropping a snapshot of", func(epoch uint64) error {
		return j.store.DropSnapshot(ctx, s.ID, epoch, at)
	})
}

// delete deletes a session because a caller has asked for it. It does not wait for what is at work
// on the session. If another has claimed the session meanwhile, it claims it in turn: the caller
// wants the session gone, whoever has it. A damaged session, which has no epoch to go by, is
// deleted under anyone's.
func (j *journal) delete(ctx context.Context, s *liveSession) error {
	epoch := s.epoch()
	if s.unusable() != nil {
		epoch = 0
	}
	err := j.deleteUnder(ctx, s.ID, epoch)
	if !moved(err) {
		return err
	}
	s.forsakeClaim()
	found, err := j.store.Claim(ctx, s.ID)
	if err != nil {
		return err
	}
	return j.deleteUnder(ctx, s.ID, found.Epoch)
}

// deleteUnder deletes a session under an epoch, or under anyone's if the session is so damaged that
// it has none.
func (j *journal) deleteUnder(ctx context.Context, id string, epoch uint64) error {
	err := j.store.Delete(ctx, id, epoch)
	if errors.Is(err, sessionlog.ErrCorrupt) {
		err = j.store.Delete(ctx, id, 0)
	}
	return err
}

// discardAll deletes sessions that nobody sees any more, because they have expired or were never
// completed, many at once: they share what a deletion costs the store.
func (j *journal) discardAll(all []*liveSession) {
	for len(all) > 0 {
		n := min(len(all), deletesAtOnce)
		var wait sync.WaitGroup
		for _, s := range all[:n] {
			wait.Go(func() { j.discard(s) })
		}
		wait.Wait()
		all = all[n:]
	}
}

// discard deletes a session under the epoch that was seen last: one that another has claimed since
// is in use there, and stays.
func (j *journal) discard(s *liveSession) {
	ctx := context.Background()
	epoch := s.epoch()
	if epoch == 0 { // making the session had an unknown outcome
		found, err := j.store.Get(ctx, s.ID)
		if err != nil {
			j.reportDiscard(s, err)
			return
		}
		epoch = found.Epoch
	}
	j.reportDiscard(s, j.deleteUnder(ctx, s.ID, epoch))
}

func (j *journal) reportDiscard(s *liveSession, err error) {
	if err != nil && !errors.Is(err, sessionlog.ErrNotFound) && !errors.Is(err, sessionlog.ErrFenced) {
		j.report(fmt.Errorf("session: deleting session %s, which has expired or was never completed: %w", s.ID, err))
	}
}
