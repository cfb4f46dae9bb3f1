package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/lmserve/lmserve/internal/serving/storage"
)

// This file is a session's claim: what lets this Manager write to it, and every write. A write
// names the session's epoch. What changes a session goes through writeLocked, the one place that
// reacts to a store that has let another write, or does not know whether it has written; deletions,
// which do not wait for what is at work on the session, have their own rules (delete, discard).

// err says why the server must not act for any session now.
func (l *lease) err() error {
	if err := l.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return nil
}

// mayClaim says why the server must not take a session that it does not have.
func (l *lease) mayClaim() error {
	if l.leaving.Load() {
		return fmt.Errorf("%w: this one hands its sessions over", ErrElsewhere)
	}
	return l.err()
}

// claimLocked makes this Manager the one who may write to the session, unless it is already.
func (s *session) claimLocked(ctx context.Context) error {
	if s.holds() {
		return nil
	}
	if err := s.host.lease.mayClaim(); err != nil {
		return err
	}
	if s.isClaimed() { // in a term that is over: another may have changed the session since
		s.loseClaimLocked()
	}
	term := s.host.lease.Term() // before the claim, which may be another's in the next
	found, err := s.host.store.Claim(ctx, s.ID)
	if err != nil {
		s.missed(err)
		return storeError("claiming session "+s.ID, err)
	}
	h, err := decodeHead(s.ID, found.Head) // another may have changed it
	if err == nil {
		err = h.checkEnd(found)
	}
	if err != nil {
		return &UnusableError{ID: s.ID, Err: err}
	}
	seen := h.progressAt(found)
	s.noteHeadLocked(&h)
	s.noteClaim(found.Epoch, term, seen)
	s.host.observer.Claimed(found.Taken)
	s.host.claimed(s)
	return nil
}

// holds reports whether this Manager is the one who may write to the session: then nobody else can
// have changed it.
func (s *session) holds() bool {
	term := s.host.lease.Term()
	s.mu.Lock()
	held := s.mu.claimed && s.mu.term == term
	s.mu.Unlock()
	return held && s.host.lease.Err() == nil
}

// isKnown reports whether what is in memory of the session is what the store has.
func (s *session) isKnown() bool { return s.holds() || s.host.lease.own && !s.isStale() }

// stillHolds returns why this server may describe the session as it no longer is; nil: it does not.
func (s *session) stillHolds() error {
	switch err := s.host.lease.err(); {
	case err != nil:
		return err
	case !s.holds():
		return fmt.Errorf("%w: the lease of this server was over meanwhile", ErrElsewhere)
	}
	return nil
}

func (s *session) isClaimed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.claimed
}

// isStale reports whether what was seen of the session may not be what the store has.
func (s *session) isStale() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.stale
}

// epoch is that of the last claim this Manager knows of, 0 if it knows of none.
func (s *session) epoch() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.epoch
}

// noteClaim notes a claim of this Manager in a term of its lease, and what it has found.
func (s *session) noteClaim(epoch, term uint64, seen progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.epoch, s.mu.claimed, s.mu.term = epoch, true, term
	s.mu.stale, s.mu.seen = false, seen
}

// noteHeadLocked takes over what can change in the head of a session.
func (s *session) noteHeadLocked(h *head) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Numerics, s.LinesFrom, s.ByLine = h.Numerics, h.LinesFrom, h.ByLine
	s.Name, s.Labels, s.TTL, s.ShadowOf = h.Name, h.Labels, h.TTL, h.ShadowOf
	s.Feedback = h.Feedback
}

// renewClaim notes that the claim is in force in another term of the lease.
func (s *session) renewClaim(term uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.term, s.mu.stale = term, false
}

// found notes what the store has told of a session without a claim: its epoch, and why it cannot be
// used, if it cannot.
func (s *session) found(epoch uint64, bad error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.epoch, s.mu.bad = epoch, bad
}

// saw notes what the store has, without a claim to it.
func (s *session) saw(found storage.Session) {
	seen := s.progressAt(found)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.stale {
		s.mu.seen = seen
	}
}

// loseClaimLocked forgets what this Manager took the session to be, because somebody else may have
// written to it: the next request claims the session anew and reads what there is.
func (s *session) loseClaimLocked() {
	s.dropLocked()
	s.loseClaim()
}

// loseClaim is the part of loseClaimLocked that needs no lock on the state.
func (s *session) loseClaim() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.claimed, s.mu.stale = false, true
}

// writeLocked carries out a write under the session's epoch. If the store has let another write to
// the session, or nobody knows whether this write was made, the session's stream and claim are
// dropped: the next request claims the session anew and reads what there is. Any other error leaves
// the session as it was. what names the write in errors.
func (s *session) writeLocked(what string, do func(epoch uint64) error) error {
	err := do(s.epoch())
	if err == nil {
		return nil
	}
	if moved(err) {
		s.host.observer.Fenced()
		s.loseClaimLocked()
		s.watchers.cut(fmt.Errorf("%w: %w", ErrUnavailable, err))
	}
	return storeError(what+" session "+s.ID, err)
}

// moved says whether an error means that the session may not be what this Manager took it to be:
// another has claimed it or has written to it, or nobody knows whether a write was made.
func moved(err error) bool {
	return errors.Is(err, storage.ErrFenced) || errors.Is(err, storage.ErrSequence) ||
		errors.Is(err, storage.ErrUnknown)
}

// missed looks whether an error says that the session has vanished.
func (s *session) missed(err error) {
	if errors.Is(err, storage.ErrNotFound) {
		s.host.gone(s)
	}
}

// currentLocked makes sure that the session's claim is in force: one that another has taken over is
// claimed anew, and what was in memory is forgotten.
func (s *session) currentLocked(ctx context.Context) error {
	if s.holds() {
		if err := s.heldLocked(ctx); err != nil && !moved(err) {
			return err
		}
	}
	return s.claimLocked(ctx)
}

// heldLocked finds out whether the claim is still in force, for requests that write nothing:
// without it a completion would go on from a state that is not the session's any more.
func (s *session) heldLocked(ctx context.Context) error {
	return s.writeLocked("looking for", func(epoch uint64) error {
		found, err := s.host.store.Get(ctx, s.ID)
		s.missed(err)
		if err == nil && found.Epoch != epoch {
			return &storage.FencedError{Session: s.ID, Have: found.Epoch, Want: epoch}
		}
		return err
	})
}

// look reads what the store has of a session that may have been written by others.
func (s *session) look(ctx context.Context) error {
	found, err := s.get(ctx)
	if err == nil {
		s.saw(found)
	}
	return err
}

// lookLocked reads where a session is that is being made.
func (s *session) lookLocked(ctx context.Context) error {
	found, err := s.get(ctx)
	if err != nil {
		return err
	}
	seen := s.progressAt(found)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.seen = seen
	return nil
}

func (s *session) get(ctx context.Context) (storage.Session, error) {
	found, err := s.host.store.Get(ctx, s.ID)
	if err != nil {
		s.missed(err)
		return found, storeError("looking for session "+s.ID, err)
	}
	return found, nil
}

// noteMade notes the claim on a session that was made in a term of the lease. If nobody knows
// whether it was made, nothing may be left.
func (s *session) noteMade(epoch, term uint64, err error) error {
	if err != nil {
		if errors.Is(err, storage.ErrUnknown) {
			s.discard()
		}
		return storeError("making session "+s.ID, err)
	}
	s.noteClaim(epoch, term, s.seen())
	return nil
}

func (s *session) appendLocked(
	ctx context.Context, at int64, records ...storage.Record,
) error {
	return s.writeLocked("appending to the log of", func(epoch uint64) error {
		err := s.host.store.Append(ctx, s.ID, epoch, at, records...)
		s.missed(err)
		return err
	})
}

func (s *session) setHeadLocked(ctx context.Context, h *head) error {
	return s.writeLocked("writing the head of", func(epoch uint64) error {
		return s.host.store.SetHead(ctx, s.ID, epoch, h.encode())
	})
}

// delete deletes a session because a caller has asked for it. It does not wait for what is at work
// on the session. If another has claimed the session meanwhile, it claims it in turn: the caller
// wants the session gone, whoever has it. A damaged session, which has no epoch to go by, is
// deleted under anyone's.
func (s *session) delete(ctx context.Context) error {
	epoch := s.epoch()
	if s.unusable() != nil {
		epoch = 0
	}
	err := s.deleteUnder(ctx, epoch)
	if !moved(err) {
		return err
	}
	s.loseClaim()
	found, err := s.host.store.Claim(ctx, s.ID)
	if err != nil {
		return err
	}
	return s.deleteUnder(ctx, found.Epoch)
}

// deleteUnder deletes a session under an epoch, or under anyone's if the session is so damaged that
// it has none.
func (s *session) deleteUnder(ctx context.Context, epoch uint64) error {
	err := s.host.store.Delete(ctx, s.ID, epoch)
	if errors.Is(err, storage.ErrCorrupt) {
		err = s.host.store.Delete(ctx, s.ID, 0)
	}
	return err
}

// discard deletes a session that nobody sees any more, because it has expired or was never
// completed, under the epoch that was seen last: one that another has claimed since is in use
// there, and stays.
func (s *session) discard() {
	ctx, epoch, err := context.Background(), s.epoch(), error(nil)
	if epoch == 0 { // making the session had an unknown outcome
		var found storage.Session
		found, err = s.host.store.Get(ctx, s.ID)
		epoch = found.Epoch
	}
	if err == nil {
		err = s.deleteUnder(ctx, epoch)
	}
	if err != nil && !errors.Is(err, storage.ErrNotFound) &&
		!errors.Is(err, storage.ErrFenced) {
		s.host.logError(fmt.Errorf("session: deleting session %s, which has expired or was never "+
			"completed: %w", s.ID, err))
	}
}

// discardAll discards sessions many at once: they share what a deletion costs the store.
func discardAll(all []*session) {
	for some := range slices.Chunk(all, deletesAtOnce) {
		var wait sync.WaitGroup
		for _, s := range some {
			wait.Go(s.discard)
		}
		wait.Wait()
	}
}
