package postgres

import (
	"sync"
	"time"
)

// sightings are what this server has seen of the leases of others. Somebody may set the clock of
// the database, and then it tells that leases are over that are not, or last when nobody renews
// them. So a lease that was seen to last is over when it was not renewed for its whole length by
// the monotonic clock of whoever has seen it: its server has stopped before, by its own. Only of a
// lease that was never seen before the database's clock is believed.
type sightings struct {
	now func() time.Time // nil: time.Now

	mu sync.Mutex
	of map[string]sighting // by the id of the server
}

// sighting is the last renewal that was seen: its end by the database's clock, and when it was
// seen.
type sighting struct {
	until, at time.Time
	over      bool // when it was seen first
}

// over says whether a server's lease is over, of this length, that ends, or by the database's clock
// has ended, at a time.
func (s *sightings) over(id string, until time.Time, lease time.Duration, ended bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now
	if s.now != nil {
		now = s.now
	}
	last, seen := s.of[id]
	if !seen || !last.until.Equal(until) {
		if s.of == nil {
			s.of = map[string]sighting{}
		}
		last = sighting{until: until, at: now(), over: !seen && ended}
		s.of[id] = last
	}
	return last.over || now().Sub(last.at) >= lease
}

// forget drops what is known of servers that the database knows no more.
func (s *sightings) forget(known func(id string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.of {
		if !known(id) {
			delete(s.of, id)
		}
	}
}
