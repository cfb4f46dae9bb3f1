package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/lmserve/lmserve/internal/sessionlog"
)

// amend changes the head of a session, in the store first. It waits for what has the session's
// state at the moment, which is a chunk, a completion, or a text that is only read, and for no
// more: a request may feed the session meanwhile.
func (ro *roster) amend(ctx context.Context, s *liveSession, r PatchRequest) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	if err := ro.journal.currentLocked(ctx, s); err != nil {
		return err
	}
	next := r.patched(s.head)
	if err := ro.checkHead(s, &next); err != nil {
		return err
	}
	if err := s.alive(); err != nil {
		return err
	}
	named := func(bool) {}
	if r.Name != nil && ro.sharing == nil {
		var err error
		if named, err = ro.registry.Rename(s.entry, next.Name); err != nil {
			return &NameTakenError{next.Name}
		}
	}
	err := ro.journal.setHeadLocked(ctx, s, &next)
	named(err == nil)
	if errors.Is(err, sessionlog.ErrTaken) {
		return &NameTakenError{next.Name}
	}
	if err != nil {
		return err
	}
	s.noteHeadLocked(&next)
	ro.registry.SetTTL(s.entry, next.TTL)
	return nil
}

// checkHead says why a session cannot have another head.
func (ro *roster) checkHead(s *liveSession, next *head) error {
	if err := checkNameOrNone(next.Name); err != nil {
		return err
	}
	if err := next.checkKept(); err != nil {
		return err
	}
	size := len(next.encode())
	if size > sessionlog.MaxHeadBytes {
		return &FieldError{"labels", fmt.Sprintf("labels that make a head of %d bytes", size),
			fmt.Sprintf("labels that leave it at most %d", sessionlog.MaxHeadBytes)}
	}
	if more := size - len(s.encode()); more > 0 {
		return ro.room.Room(s.Owner, int64(more))
	}
	return nil
}

// index has the registry know a session by what its head says now. A name that another session of
// the owner has stays that session's.
func (ro *roster) index(s *liveSession) {
	if ro.sharing != nil { // a claim counts as a use there, and the store knows the names
		ro.registry.Touch(s.entry, ro.clock.now().UTC())
		ro.registry.SetTTL(s.entry, s.TTL)
		return
	}
	ro.registry.SetTTL(s.entry, s.TTL)
	if named, err := ro.registry.Rename(s.entry, s.Name); err == nil {
		named(true)
	}
}
