package session

import (
	"context"
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
	if err := next.checkKept(); err != nil {
		return err
	}
	size := len(next.encode())
	if size > sessionlog.MaxHeadBytes {
		return &FieldError{"labels", fmt.Sprintf("labels that make a head of %d bytes", size),
			fmt.Sprintf("labels that leave it at most %d", sessionlog.MaxHeadBytes)}
	}
	if more := size - len(s.encode()); more > 0 {
		if err := ro.room.Room(s.Owner, int64(more)); err != nil {
			return err
		}
	}
	if err := s.alive(); err != nil {
		return err
	}
	if err := ro.journal.setHeadLocked(ctx, s, &next); err != nil {
		return err
	}
	s.noteHeadLocked(&next)
	ro.registry.SetTTL(s.entry, next.TTL)
	return nil
}
