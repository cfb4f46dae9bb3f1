package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/lmserve/lmserve/internal/serving/storage"
)

// This file has every write to a session, under the session's epoch. All of them go through
// writeLocked, except deletions, which do not wait for the requests that use the session.

// writeLocked runs a write under the session's epoch. If another server has written, or the outcome
// of the write is unknown, it drops the stream and the claim: the next request claims the session
// again. Any other error leaves the session unchanged. what names the write in errors.
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

// moved reports whether an error means that the session may differ from what this Manager has in
// memory. Another server has claimed it or written to it, or the outcome of a write is unknown.
func moved(err error) bool {
	return errors.Is(err, storage.ErrFenced) || errors.Is(err, storage.ErrSequence) ||
		errors.Is(err, storage.ErrUnknown)
}

// currentLocked makes sure that the session's claim is in force. If another server has claimed the
// session, it drops the state in memory and claims the session again.
func (s *session) currentLocked(ctx context.Context) error {
	if s.holds() {
		if err := s.heldLocked(ctx); err != nil && !moved(err) {
			return err
		}
	}
	return s.claimLocked(ctx)
}

// heldLocked checks that the claim is still in force, for requests that write nothing. Without the
// check a completion could continue from an outdated state.
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

func (s *session) setHeadLocked(ctx context.Context, h *head) error {
	return s.writeLocked("writing the head of", func(epoch uint64) error {
		return s.host.store.SetHead(ctx, s.ID, epoch, h.encode())
	})
}

// delete deletes a session for a caller, without waiting for requests that use the session. If
// another server has claimed the session, delete claims it: the caller wants the deletion,
// whichever server has the session. A damaged session without an epoch is deleted under any epoch.
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

// deleteUnder deletes a session under an epoch, or under any epoch if the session is so damaged
// that it has none.
func (s *session) deleteUnder(ctx context.Context, epoch uint64) error {
	err := s.host.store.Delete(ctx, s.ID, epoch)
	if errors.Is(err, storage.ErrCorrupt) {
		err = s.host.store.Delete(ctx, s.ID, 0)
	}
	return err
}

// discard deletes a session that has expired or was never completed. It uses the epoch that was
// seen last: if another server has claimed the session since, the session is in use there, and the
// store refuses the deletion.
func (s *session) discard() {
	ctx, epoch, err := context.Background(), s.epoch(), error(nil)
	if epoch == 0 { // the write that made the session had an unknown outcome
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
	}
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

// noteMade records the claim on a new session in a term of the lease. If the outcome is unknown, it
// deletes the session.
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
