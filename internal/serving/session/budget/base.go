package budget

import (
	"container/list"
	"sync"
)

// pool is the memory that accounts and bases share.
type pool struct {
	sync.Mutex
	used   int64     // bytes of all accounts and bases
	spare  list.List // the *Base values that no state needs, least recently used first
	extras list.List // every *Extra, least recently used first
	extra  int64     // bytes of all extras
	listed uint64    // number of values ever put in the list spare or in the list of idle states
}

// stampLocked returns the number for the next value that is put in a list. The numbers increase.
func (p *pool) stampLocked() uint64 {
	p.listed++
	return p.listed
}

// Base is the memory that several states share: the weights of their model. It is counted in full
// with the first state that needs it. A base without states stays until its memory is needed. Idle
// states and bases without states are dropped in the order of their last use.
type Base struct {
	pool  *pool
	bytes int64
	drop  func()

	// Guarded by pool.
	held  bool
	users int           // accounts that have memory for a state
	place *list.Element // place in pool.spare; nil if the base is not there
	since uint64        // pool.listed when the base was put in pool.spare
}

// Users returns the number of accounts whose state needs the base and has memory.
func (s *Base) Users() int {
	s.pool.Lock()
	defer s.pool.Unlock()
	return s.users
}

// size returns the memory of a base; 0 for nil.
func (s *Base) size() int64 {
	if s == nil {
		return 0
	}
	return s.bytes
}

// needLocked returns the memory that one more state needs for the base.
func (s *Base) needLocked() int64 {
	if s == nil || s.held {
		return 0
	}
	return s.bytes
}

// useLocked counts an account that has got memory for a state.
func (s *Base) useLocked() {
	if s == nil {
		return
	}
	s.pool.used += s.needLocked()
	s.held = true
	s.users++
	if s.place != nil {
		s.pool.spare.Remove(s.place)
		s.place = nil
	}
}

// leaveLocked uncounts an account that no longer has memory for a state.
func (s *Base) leaveLocked() {
	if s == nil {
		return
	}
	if s.users--; s.users == 0 && s.bytes > 0 {
		s.place, s.since = s.pool.spare.PushBack(s), s.pool.stampLocked()
	}
}

// dropSpareLocked drops the least recently used base that no state needs. It never drops the
// parameter kept, nor a base whose field since is above the parameter before. It reports whether it
// dropped a base.
func (p *pool) dropSpareLocked(kept *Base, before uint64) bool {
	place := p.spare.Front()
	if place != nil && place.Value.(*Base) == kept {
		place = place.Next()
	}
	if place == nil || place.Value.(*Base).since > before {
		return false
	}
	s := p.spare.Remove(place).(*Base)
	s.place, s.held = nil, false
	p.used -= s.bytes
	s.drop()
	return true
}
