package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/lmserve/lmserve/internal/serving/storage"
)

// This file has the functions for a session's claim. The claim gives this Manager the right to
// write to the session.

// err returns an error if the lease of this server has lapsed. Then other servers may write to its
// sessions.
func (l *lease) err() error {
	if err := l.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return nil
}

func (l *lease) mayClaim() error {
	if l.leaving.Load() {
		return fmt.Errorf("%w: this server is handing over its sessions", ErrElsewhere)
	}
	return l.err()
}

// claimLocked claims the session for this Manager if the Manager does not have the claim yet.
func (s *session) claimLocked(ctx context.Context) error {
	if s.holds() {
		return nil
	}
	if err := s.host.lease.mayClaim(); err != nil {
		return err
	}
	// A claim that is left here is from an earlier term of the lease. Since then, another server
	// may have changed the session.
	if s.isClaimed() {
		s.loseClaimLocked()
	}
	term := s.host.lease.Term() // read first, because a new term may begin during the claim
	found, err := s.host.store.Claim(ctx, s.ID)
	if err != nil {
		s.missed(err)
		return storeError("claiming session "+s.ID, err)
	}
	h, err := decodeHead(s.ID, found.Head) // another server may have changed the head
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

// holds reports whether this Manager has a valid claim on the session. Then no other server can
// have changed the session.
func (s *session) holds() bool {
	term := s.host.lease.Term()
	s.mu.Lock()
	held := s.mu.claimed && s.mu.term == term
	s.mu.Unlock()
	return held && s.host.lease.Err() == nil
}

// isKnown reports whether the session in memory matches the store.
func (s *session) isKnown() bool { return s.holds() || s.host.lease.own && !s.isStale() }

// stillHolds returns an error if the claim was lost. Then another server may have changed the
// session, and a description of the session may be out of date.
func (s *session) stillHolds() error {
	switch err := s.host.lease.err(); {
	case err != nil:
		return err
	case !s.holds():
		return fmt.Errorf("%w: the lease of this server lapsed while the session was being "+
			"claimed", ErrElsewhere)
	}
	return nil
}

func (s *session) isClaimed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.claimed
}

// isStale reports whether the session in memory may differ from the store.
func (s *session) isStale() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.stale
}

// epoch returns the number of the last claim that this Manager has seen, or 0 if it has seen none.
func (s *session) epoch() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.epoch
}

// noteClaim records a claim of this Manager in the given term of its lease. seen is the session's
// progress in the store.
func (s *session) noteClaim(epoch, term uint64, seen progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.epoch, s.mu.claimed, s.mu.term = epoch, true, term
	s.mu.stale, s.mu.seen = false, seen
}

// noteHeadLocked copies the changeable fields of a stored head to the session.
func (s *session) noteHeadLocked(h *head) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Numerics, s.LinesFrom, s.ByLine = h.Numerics, h.LinesFrom, h.ByLine
	s.TroubleWords, s.Records = h.TroubleWords, h.Records
	s.Name, s.Labels, s.TTL, s.ShadowOf = h.Name, h.Labels, h.TTL, h.ShadowOf
	s.Feedback, s.Deliveries = h.Feedback, h.Deliveries
}

func (s *session) renewClaim(term uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.term, s.mu.stale = term, false
}

// found records the result of a read without a claim: the session's epoch, and an error if the
// session is unusable.
func (s *session) found(epoch uint64, bad error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.epoch, s.mu.bad = epoch, bad
}

// saw records the stored progress of a session that another server may have changed.
func (s *session) saw(found storage.Session) {
	seen := s.progressAt(found)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.stale {
		s.mu.seen = seen
	}
}

// loseClaimLocked drops the session's state from memory, because another server may have changed
// the session. The next request claims the session again and reads it from the store.
func (s *session) loseClaimLocked() {
	s.dropLocked()
	s.loseClaim()
	s.host.observer.Left(s.ID)
}

// loseClaim is the part of loseClaimLocked that does not need the lock on the state.
func (s *session) loseClaim() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.claimed, s.mu.stale = false, true
}

// missed removes the session from memory if err says that the store does not have the session.
func (s *session) missed(err error) {
	if errors.Is(err, storage.ErrNotFound) {
		s.host.gone(s)
	}
}

// look reads the session's progress from the store, because other servers may have written to it.
func (s *session) look(ctx context.Context) error {
	found, err := s.get(ctx)
	if err == nil {
		s.saw(found)
	}
	return err
}

// lookLocked reads the session's progress from the store and records it.
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
