package session

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/lmserve/lmserve/internal/sessionlog"
)

// This file is the Manager's bookkeeping: which sessions there are, who uses them, what they occupy.

// find needs mu. Every request that names a session finds it here.
func (mg *Manager) find(who Caller, id string) (*session, error) {
	if mg.options.Store.Err() != nil {
		return nil, mg.storeError("looking for session "+id, mg.options.Store.Err())
	}
	s := mg.sessions[id]
	if s == nil || !who.sees(s.Owner) || mg.expired(s) {
		return nil, ErrNotFound
	}
	return s, nil
}

// admit takes the place of one more session of the caller. Once the session is made it is one of mg.sessions; until then, forgo gives the place
// back, and what memory the session has got.
func (mg *Manager) admit(who Caller, s *session, bytes int64) error {
	mg.sweep()
	if err := mg.options.Store.Err(); err != nil {
		return mg.storeError("making a session", err)
	}
	mg.mu.Lock()
	defer mg.mu.Unlock()
	switch {
	case mg.draining:
		return ErrDraining
	case who.MaxSessions > 0 && mg.owned[who.Key] >= who.MaxSessions:
		return &QuotaError{Max: who.MaxSessions}
	case mg.places >= mg.options.MaxSessions:
		return fmt.Errorf("%w: %d sessions", ErrFull, mg.options.MaxSessions)
	case bytes > mg.options.MaxMemoryBytes: // it could never be used
		return fmt.Errorf("%w: a state of %d bytes, there are %d for all", ErrFull, bytes, mg.options.MaxMemoryBytes)
	}
	mg.places++
	mg.owned[s.Owner]++
	return nil
}

// forgo needs mu.
func (mg *Manager) forgo(s *session) {
	mg.places--
	if mg.owned[s.Owner]--; mg.owned[s.Owner] == 0 {
		delete(mg.owned, s.Owner)
	}
	mg.giveBack(s)
}

// remove makes an end of a session; what the store has of it is not its concern. It needs mu.
func (mg *Manager) remove(s *session) {
	if s.gone {
		return
	}
	s.gone = true
	delete(mg.sessions, s.ID)
	mg.forgo(s)
}

// sweep deletes the sessions that were not used for too long. It runs whenever sessions are made or listed, so that no goroutine is needed: one
// that has expired is found by nobody before.
func (mg *Manager) sweep() {
	mg.mu.Lock()
	var doomed []string
	for id, s := range mg.sessions {
		if mg.expired(s) {
			mg.remove(s)
			doomed = append(doomed, id)
		}
	}
	mg.mu.Unlock()
	mg.erase(doomed)
}

// erase deletes sessions from the store that nobody sees any more, many at once: they share what that costs.
func (mg *Manager) erase(ids []string) {
	for len(ids) > 0 {
		n := min(len(ids), deletesAtOnce)
		var wait sync.WaitGroup
		for _, id := range ids[:n] {
			wait.Go(func() {
				err := mg.options.Store.Delete(context.Background(), id, 0)
				if err != nil && !errors.Is(err, sessionlog.ErrNotFound) {
					mg.options.Report(fmt.Errorf("session: deleting session %s, which has expired or was never completed: %w", id, err))
				}
			})
		}
		wait.Wait()
		ids = ids[n:]
	}
}

// expired needs mu.
func (mg *Manager) expired(s *session) bool {
	return s.TTL > 0 && s.users == 0 && mg.now().Sub(s.lastUsed) >= s.TTL
}

// memoryFor says whether so many bytes more are within the limit. It needs mu.
func (mg *Manager) memoryFor(bytes int64) error {
	if mg.memory+bytes > mg.options.MaxMemoryBytes {
		return fmt.Errorf("%w: %d of %d bytes of memory are in use", ErrFull, mg.memory, mg.options.MaxMemoryBytes)
	}
	return nil
}

// take reserves memory for a session, which is hot from now on. It needs mu.
func (mg *Manager) take(s *session, bytes int64) {
	s.reserved += bytes
	mg.memory += bytes
	mg.hot[s] = struct{}{}
}

// giveBack frees all memory of a session. It needs mu.
func (mg *Manager) giveBack(s *session) {
	mg.memory -= s.reserved
	s.reserved = 0
	delete(mg.hot, s)
	mg.signal()
}

// textBytes is what text takes of the memory: nothing where it is on disk.
func (mg *Manager) textBytes(bytes, records int) int64 {
	if !mg.resident {
		return 0
	}
	return int64(bytes) + int64(records)*recordBytes
}

// use finds a session for a request that feeds or samples it.
func (mg *Manager) use(who Caller, id string) (*session, error) {
	mg.mu.Lock()
	defer mg.mu.Unlock()
	if mg.draining {
		return nil, ErrDraining
	}
	s, err := mg.find(who, id)
	if err != nil {
		return nil, err
	}
	if s.bad != nil {
		return nil, &UnusableError{ID: s.ID, Err: s.bad}
	}
	s.users++
	return s, nil
}

func (mg *Manager) unuse(s *session) {
	mg.mu.Lock()
	defer mg.mu.Unlock()
	s.users--
}

// touch ends a request that fed or sampled the session.
func (mg *Manager) touch(s *session) progress {
	mg.mu.Lock()
	defer mg.mu.Unlock()
	s.lastUsed = mg.now().UTC()
	return s.seen
}

// offset is where the next byte goes.
func (mg *Manager) offset(s *session) int64 {
	mg.mu.Lock()
	defer mg.mu.Unlock()
	return s.seen.offset
}

// reserve takes memory for text, and gives back as much of the text as the session can have. It fails when the session was deleted, when it
// is full, and when the memory is.
func (mg *Manager) reserve(s *session, text []byte) ([]byte, error) {
	mg.mu.Lock()
	defer mg.mu.Unlock()
	if s.gone {
		return nil, ErrNotFound
	}
	left := mg.options.MaxSessionBytes - s.seen.offset
	if left <= 0 {
		return nil, &LimitError{Offset: s.seen.offset, Max: mg.options.MaxSessionBytes}
	}
	text = text[:min(int64(len(text)), left)]
	bytes := mg.textBytes(len(text), 1)
	if err := mg.memoryFor(bytes); bytes > 0 && err != nil {
		return nil, err
	}
	s.reserved += bytes
	mg.memory += bytes
	return text, nil
}

// reserveText takes memory for text that is copied into a session being made.
func (mg *Manager) reserveText(s *session, bytes, records int) error {
	mg.mu.Lock()
	defer mg.mu.Unlock()
	n := mg.textBytes(bytes, records)
	if err := mg.memoryFor(n); n > 0 && err != nil {
		return err
	}
	s.reserved += n
	mg.memory += n
	return nil
}

// unreserve gives memory back. What a deleted session had was given back as a whole.
func (mg *Manager) unreserve(s *session, bytes int) {
	mg.mu.Lock()
	defer mg.mu.Unlock()
	if n := mg.textBytes(bytes, 1); !s.gone {
		s.reserved -= n
		mg.memory -= n
	}
}

// publish shows the world where the session's stream is. Its caller holds the stream.
func (mg *Manager) publish(s *session) {
	p := s.progress()
	mg.mu.Lock()
	defer mg.mu.Unlock()
	s.seen = p
}

// alive says whether a session was deleted under a request.
func (mg *Manager) alive(s *session) error {
	mg.mu.Lock()
	defer mg.mu.Unlock()
	if s.gone {
		return ErrNotFound
	}
	return nil
}

// storeError is what a request is told of an error of the store.
func (mg *Manager) storeError(what string, err error) error {
	var damage *sessionlog.CorruptError
	switch {
	case errors.Is(err, sessionlog.ErrFailed), errors.Is(err, sessionlog.ErrClosed):
		return fmt.Errorf("%w: %s: %w", ErrStore, what, err)
	case errors.Is(err, sessionlog.ErrNoSpace):
		return fmt.Errorf("%w: %s: %w", ErrNoSpace, what, err)
	case errors.Is(err, sessionlog.ErrNotFound):
		return ErrNotFound
	case errors.Is(err, ErrFull):
		return err
	case errors.As(err, &damage):
		return &UnusableError{ID: damage.Session, Err: fmt.Errorf("%s: %w", what, err)}
	}
	return fmt.Errorf("session: %s: %w", what, err)
}
