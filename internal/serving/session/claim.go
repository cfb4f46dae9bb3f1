package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/lmserve/lmserve/internal/serving/storage"
)

// This file holds a session's claim, which lets this Manager write to the session.

// err returns why the server must not act for any session now.
func (l *lease) err() error {
	if err := l.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return nil
}

// mayClaim returns why the server must not claim a session.
func (l *lease) mayClaim() error {
	if l.leaving.Load() {
		return fmt.Errorf("%w: this server is handing over its sessions", ErrElsewhere)
	}
	return l.err()
}

// claimLocked claims the session for this Manager, unless it holds the claim already.
func (s *session) claimLocked(ctx context.Context) error {
	if s.holds() {
		return nil
	}
	if err := s.host.lease.mayClaim(); err != nil {
		return err
	}
	// The claim is from an earlier term of the lease. Another server may have changed the session
	// since then.
	if s.isClaimed() {
		s.loseClaimLocked()
	}
	term := s.host.lease.Term() // read before the claim: a new term may begin during the claim
	found, err := s.host.store.Claim(ctx, s.ID)
	if err != nil {
		s.missed(err)
		return storeError("claiming session "+s.ID, err)
	}
	h, err := decodeHead(s.ID, found.Head) // another server may have changed it
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

// holds reports whether this Manager holds the claim. Then nobody else can have changed the
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

// stillHolds returns an error if another server may have changed the session, so that a description
// may be out of date.
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

// epoch returns the epoch of the last claim that this Manager knows of, 0 if it knows of none.
func (s *session) epoch() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.epoch
}

// noteClaim records a claim of this Manager in a term of its lease, and the progress that the store
// returned.
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

// renewClaim records that the claim also holds in a new term of the lease.
func (s *session) renewClaim(term uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.term, s.mu.stale = term, false
}

// found records what a read without a claim returned: the session's epoch, and why it is unusable,
// or nil.
func (s *session) found(epoch uint64, bad error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.epoch, s.mu.bad = epoch, bad
}

// saw records the store's version of the session, read without a claim.
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

// loseClaim is loseClaimLocked without the part that needs the lock on the state.
func (s *session) loseClaim() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.claimed, s.mu.stale = false, true
}

// missed removes the session if the error says that the store no longer has it.
func (s *session) missed(err error) {
	if errors.Is(err, storage.ErrNotFound) {
		s.host.gone(s)
	}
}

// look reads a session that other servers may have written to.
func (s *session) look(ctx context.Context) error {
	found, err := s.get(ctx)
	if err == nil {
		s.saw(found)
	}
	return err
}

// lookLocked reads from the store the progress of a session that another request is making.
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
