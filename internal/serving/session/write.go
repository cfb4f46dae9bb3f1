package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/lmserve/lmserve/internal/serving/storage"
)

// All writes to a session are in this file. They go through writeLocked, which checks the session's
// epoch. Only deletions do not, because they do not wait for requests that use the session.

// writeLocked runs a write under the session's epoch. If another server has written, or the outcome
// of the write is unknown, writeLocked drops the session's state and its claim. The next request
// then claims the session again. Any other error leaves the session unchanged. what names the write
// in errors.
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

// moved reports whether an error means that the stored session may differ from this Manager's
// state. Then another server has claimed or written the session, or the outcome of a write is
// unknown.
func moved(err error) bool {
	return errors.Is(err, storage.ErrFenced) || errors.Is(err, storage.ErrSequence) ||
		errors.Is(err, storage.ErrUnknown)
}

// currentLocked makes sure that this server holds the session's claim. If another server has
// claimed the session, currentLocked drops the state in memory and claims the session again.
func (s *session) currentLocked(ctx context.Context) error {
	if s.holds() {
		if err := s.heldLocked(ctx); err != nil && !moved(err) {
			return err
		}
	}
	return s.claimLocked(ctx)
}

// heldLocked checks that the session's claim is still in force, for requests that write nothing.
// Without this check, a completion could continue from an outdated state.
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

func (s *session) appendLocked(
	ctx context.Context, at int64, records ...storage.Record,
) error {
	return s.writeLocked("appending to the log of", func(epoch uint64) error {
		err := s.host.store.Append(ctx, s.ID, epoch, at, records...)
		s.missed(err)
		return err
	})
}

// setHeadLocked replaces the session's head, first in the store and then in memory.
func (s *session) setHeadLocked(ctx context.Context, h *head) error {
	err := s.writeLocked("writing the head of", func(epoch uint64) error {
		return s.host.store.SetHead(ctx, s.ID, epoch, h.encode())
	})
	if err == nil {
		s.noteHeadLocked(h)
	}
	return err
}

// delete deletes a session for a caller, without waiting for requests that use the session. If
// another server has claimed the session, delete first claims it, because a deletion applies
// whichever server owns the session. A damaged session is deleted under any epoch.
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
	found, gone := s.host.store.Claim(ctx, s.ID)
	switch {
	case errors.Is(gone, storage.ErrNotFound) && errors.Is(err, storage.ErrUnknown):
		return nil // the deletion of unknown outcome was made
	case gone != nil:
		return gone
	}
	return s.deleteUnder(ctx, found.Epoch)
}

// deleteUnder deletes a session under an epoch. A session so damaged that it has no epoch is
// deleted under any epoch.
func (s *session) deleteUnder(ctx context.Context, epoch uint64) error {
	err := s.host.store.Delete(ctx, s.ID, epoch)
	if errors.Is(err, storage.ErrCorrupt) {
		err = s.host.store.Delete(ctx, s.ID, 0)
	}
	return err
}

// discard deletes a session that has expired or was never completed. discard uses the last epoch
// that this server has seen. If another server has claimed the session since, the session is in use
// there, and the store refuses the deletion.
func (s *session) discard() {
	ctx, epoch, err := context.Background(), s.epoch(), error(nil)
	if epoch == 0 { // the outcome of the write that created the session is unknown
		var found storage.Session
		found, err = s.host.store.Get(ctx, s.ID)
		epoch = found.Epoch
	}
	if err == nil {
		err = s.deleteUnder(ctx, epoch)
	}
	if err != nil && !errors.Is(err, storage.ErrNotFound) &&
		!errors.Is(err, storage.ErrFenced) {
		s.host.logError(fmt.Errorf("session: deleting expired or incomplete session %s: "+
			"%w", s.ID, err))
		// Without the epoch, a complete session in a shared store may be in use on another server.
		if s.host.lease.own || s.epoch() != 0 || !s.Complete {
			s.host.undeleted.add(s)
		}
	}
}

// undeleted contains the sessions that discard could not delete. They are not in the registry, so
// only the catalog deletes them later.
type undeleted struct {
	mu  sync.Mutex
	all []*session
}

func (u *undeleted) add(s *session) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.all = append(u.all, s)
}

// take removes up to deletesAtOnce sessions and returns them.
func (u *undeleted) take() []*session {
	u.mu.Lock()
	defer u.mu.Unlock()
	n := min(len(u.all), deletesAtOnce)
	some := slices.Clone(u.all[:n])
	u.all = slices.Delete(u.all, 0, n)
	return some
}

// discardAll discards many sessions at once, so that they share the store's cost of a deletion.
func discardAll(all []*session) {
	for some := range slices.Chunk(all, deletesAtOnce) {
		var wait sync.WaitGroup
		for _, s := range some {
			wait.Go(s.discard)
		}
		wait.Wait()
	}
}

// noteMade records the claim on a new session. The claim belongs to a term of the server's lease.
// If the outcome of the creation is unknown, noteMade deletes the session.
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
