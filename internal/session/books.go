package session

import "fmt"

// This file is the Manager's bookkeeping: which sessions there are, who uses them, what they occupy.

// find needs mu. Every request that names a session finds it here.
func (mg *Manager) find(who Caller, id string) (*session, error) {
	s := mg.sessions[id]
	if s == nil || !who.sees(s.owner) {
		return nil, ErrNotFound
	}
	if mg.expired(s) {
		mg.remove(s)
		return nil, ErrNotFound
	}
	return s, nil
}

// remove needs mu.
func (mg *Manager) remove(s *session) {
	delete(mg.sessions, s.id)
	if mg.owned[s.owner]--; mg.owned[s.owner] == 0 {
		delete(mg.owned, s.owner)
	}
	mg.memory -= s.reserved
	s.gone = true
}

// expire removes the sessions that were not used for too long. It runs whenever room is asked for and sessions are looked up, so that no
// goroutine is needed: one that has expired is in nobody's way before. It needs mu.
func (mg *Manager) expire() {
	for _, s := range mg.sessions {
		if mg.expired(s) {
			mg.remove(s)
		}
	}
}

// expired needs mu.
func (mg *Manager) expired(s *session) bool {
	return s.ttl > 0 && s.users == 0 && mg.now().Sub(s.lastUsed) >= s.ttl
}

// admit says whether there may be room for one more session of the caller, however large.
func (mg *Manager) admit(who Caller) error {
	mg.mu.Lock()
	defer mg.mu.Unlock()
	return mg.roomFor(who, 0)
}

// roomFor says whether there is room for one more session of a size. It needs mu.
func (mg *Manager) roomFor(who Caller, bytes int64) error {
	if mg.draining {
		return ErrDraining
	}
	mg.expire()
	if who.MaxSessions > 0 && mg.owned[who.Key] >= who.MaxSessions {
		return &QuotaError{Max: who.MaxSessions}
	}
	if len(mg.sessions) >= mg.options.MaxSessions {
		return fmt.Errorf("%w: %d sessions", ErrFull, mg.options.MaxSessions)
	}
	return mg.memoryFor(bytes)
}

// memoryFor says whether so many bytes more are within the limit. It needs mu.
func (mg *Manager) memoryFor(bytes int64) error {
	if mg.memory+bytes > mg.options.MaxMemoryBytes {
		return fmt.Errorf("%w: %d of %d bytes of memory are in use", ErrFull, mg.memory, mg.options.MaxMemoryBytes)
	}
	return nil
}

// use finds a session for a request that feeds or samples it.
func (mg *Manager) use(who Caller, id string) (*session, error) {
	mg.mu.Lock()
	defer mg.mu.Unlock()
	if mg.draining {
		return nil, ErrDraining
	}
	s, err := mg.find(who, id)
	if err == nil {
		s.users++
	}
	return s, err
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

// reserve takes memory for text, and gives back as much of the text as the session can have. It fails when the session was deleted, when it
// is full, and when the memory is.
func (mg *Manager) reserve(s *session, text []byte) ([]byte, error) {
	left := mg.options.MaxSessionBytes - s.log.Size()
	mg.mu.Lock()
	defer mg.mu.Unlock()
	if s.gone {
		return nil, ErrNotFound
	}
	if left <= 0 {
		return nil, &LimitError{Offset: s.log.Size(), Max: mg.options.MaxSessionBytes}
	}
	text = text[:min(int64(len(text)), left)]
	if mg.memoryFor(int64(len(text))) != nil {
		mg.expire()
		if err := mg.memoryFor(int64(len(text))); err != nil {
			return nil, err
		}
	}
	s.reserved += int64(len(text))
	mg.memory += int64(len(text))
	return text, nil
}

// unreserve gives memory back. What a deleted session had was given back as a whole.
func (mg *Manager) unreserve(s *session, bytes int) {
	mg.mu.Lock()
	defer mg.mu.Unlock()
	if !s.gone {
		s.reserved -= int64(bytes)
		mg.memory -= int64(bytes)
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
