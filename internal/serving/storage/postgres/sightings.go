package postgres

import (
	"sync"
	"time"
)

// sightings are the renewals of other servers' leases that this server has seen. The clock of the
// database may be set. Then the database shows valid leases as lapsed, or lapsed ones as valid. So
// this server uses its monotonic clock: a lease has lapsed if it was not renewed for its whole
// length. The lease's server has then stopped before, by its own clock. The database's clock
// decides only about a lease that was never seen before.
type sightings struct {
	now func() time.Time // nil: time.Now

	mu sync.Mutex
	of map[string]sighting // sightings by server id
}

// sighting is the last renewal seen: its end by the database's clock, and when it was seen.
type sighting struct {
	until, at time.Time
	over      bool // when it was first seen
}

// over reports whether the lease of a server has lapsed. until is its end by the database's clock,
// lease its length, and ended whether it has ended by that clock.
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

// forget drops the sightings of servers that the database no longer knows.
func (s *sightings) forget(known func(id string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.of {
		if !known(id) {
			delete(s.of, id)
		}
	}
}
