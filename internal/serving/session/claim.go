package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/lmserve/lmserve/internal/serving/storage"
)

// This file is a session's claim, which lets this Manager write to it.

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
	s.TroubleWords, s.Records = h.TroubleWords, h.Records
	s.Name, s.Labels, s.TTL, s.ShadowOf = h.Name, h.Labels, h.TTL, h.ShadowOf
	s.Feedback, s.Deliveries = h.Feedback, h.Deliveries
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
	s.host.observer.Left(s.ID)
}

// loseClaim is the part of loseClaimLocked that needs no lock on the state.
func (s *session) loseClaim() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.claimed, s.mu.stale = false, true
}

// missed looks whether an error says that the session has vanished.
func (s *session) missed(err error) {
	if errors.Is(err, storage.ErrNotFound) {
		s.host.gone(s)
	}
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
	s.noteSeen(s.progressAt(found))
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
