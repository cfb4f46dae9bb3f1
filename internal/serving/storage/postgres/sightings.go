package postgres

import (
	"sync"
	"time"
)

// sightings are the renewals of other servers' leases that this server has seen. If the clock of
// the database is set, the database may show valid leases as lapsed, or lapsed leases as valid. So
// this server uses its monotonic clock only: a lease has lapsed if this server has watched it for
// its whole length without a renewal. By then the other server has stopped by its own clock.
type sightings struct {
	now func() time.Time // nil means time.Now

	mu sync.Mutex
	of map[string]sighting
}

// sighting is the last renewal of a lease that this server has seen: the new end of the lease by
// the database's clock, and the time at which this server first saw that end.
type sighting struct {
	until, at time.Time
	renewed   bool // this server has seen at least one renewal
}

// over reports whether a server's lease has lapsed. lease is its duration. Parameter `until` is the
// end of the lease by the database's clock. Parameter `asked` is a time before that end was read.
func (s *sightings) over(id string, until time.Time, lease time.Duration, asked time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, seen := s.of[id]
	if !seen || !last.until.Equal(until) {
		if s.of == nil {
			s.of = map[string]sighting{}
		}
		last = sighting{until: until, at: s.clock(), renewed: seen}
		s.of[id] = last
	}
	return asked.Sub(last.at) >= lease
}

func (s *sightings) renews(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of[id].renewed
}

// unrenewed returns the servers that this server has watched for the duration age without seeing a
// renewal of their leases. It also returns the ends of these leases by the database's clock.
func (s *sightings) unrenewed(age time.Duration) (ids []string, untils []time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, last := range s.of {
		if s.clock().Sub(last.at) >= age {
			ids, untils = append(ids, id), append(untils, last.until)
		}
	}
	return ids, untils
}

func (s *sightings) clock() time.Time {
	if s.now != nil {
		return s.now()
	}
	return time.Now()
}

func (s *sightings) forget(known func(id string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.of {
		if !known(id) {
			delete(s.of, id)
		}
	}
}
