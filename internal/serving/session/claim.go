package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/lmserve/lmserve/internal/serving/storage"
)

// This file has the functions for a session's claim. The claim gives this Manager the right to
// write to the session.

// err returns an error if the lease of this server has lapsed: it must then not act for any
// session.
func (l *lease) err() error {
	if err := l.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return nil
}

// mayClaim returns an error if this server must not claim sessions now.
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
	// If a claim is left here, it is from an earlier term of the lease. Another server may have
	// changed the session since.
	if s.isClaimed() {
		s.loseClaimLocked()
	}
	term := s.host.lease.Term() // read before the claim, because a new term may begin during it
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

// holds reports whether this Manager has the claim. If so, no other server can have changed the
// session.
func (s *session) holds() bool {
	term := s.host.lease.Term()
	s.mu.Lock()
	held := s.mu.claimed && s.mu.term == term
	s.mu.Unlock()
	return held && s.host.lease.Err() == nil
}

// isKnown reports whether the session in memory matches the store.
func (s *session) isKnown() bool { return s.holds() || s.host.lease.own && !s.isStale() }

// stillHolds returns an error if another server may have changed the session. A description of the
// session may then be out of date.
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

// epoch returns the epoch of the last claim that this Manager has seen, or 0 if it has seen none.
func (s *session) epoch() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.epoch
}

// noteClaim records that this Manager claimed the session in the given term of its lease. It also
// records the session's progress, which the store returned.
func (s *session) noteClaim(epoch, term uint64, seen progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.epoch, s.mu.claimed, s.mu.term = epoch, true, term
	s.mu.stale, s.mu.seen = false, seen
}

// noteHeadLocked copies the fields of a head that can change.
func (s *session) noteHeadLocked(h *head) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Numerics, s.LinesFrom, s.ByLine = h.Numerics, h.LinesFrom, h.ByLine
	s.TroubleWords, s.Records = h.TroubleWords, h.Records
	s.Name, s.Labels, s.TTL, s.ShadowOf = h.Name, h.Labels, h.TTL, h.ShadowOf
	s.Feedback, s.Deliveries = h.Feedback, h.Deliveries
}

// renewClaim records that the claim is also valid in a new term of the lease.
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

// saw records the session's progress in the store, read without a claim.
func (s *session) saw(found storage.Session) {
	seen := s.progressAt(found)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.stale {
		s.mu.seen = seen
	}
}

// loseClaimLocked forgets the session's state, because another server may have written to it. The
// next request claims the session again and reads it from the store.
func (s *session) loseClaimLocked() {
	s.dropLocked()
	s.loseClaim()
	s.host.observer.Left(s.ID)
}

// loseClaim does the part of loseClaimLocked that does not need the lock on the state.
func (s *session) loseClaim() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.claimed, s.mu.stale = false, true
}

// missed removes the session from memory if the error means that the store no longer has it.
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

// lookLocked reads the session's progress from the store, while another request feeds the session.
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
