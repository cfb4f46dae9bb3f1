package budget

import (
	"container/list"
	"sync"
)

// pool is the memory that accounts and bases share.
type pool struct {
	sync.Mutex
	used   int64     // by all accounts and bases
	spare  list.List // has the *Base that no state needs, the one used longest ago first
	extras list.List // has every *Extra, the one used longest ago first
	extra  int64     // bytes of all extras
	listed uint64    // places that were ever given here or among the states that can be given up
}

// stampLocked numbers the places in the lists, in the order in which they are given.
func (p *pool) stampLocked() uint64 {
	p.listed++
	return p.listed
}

// Base is what several states share: the weights of their model. The first state that needs a base
// pays for it. A base without states stays until others want its memory, and is dropped in its turn
// among the states that can be given up.
type Base struct {
	pool  *pool
	bytes int64
	drop  func()

	// Guarded by pool.
	held  bool
	users int           // accounts that have memory for a state
	place *list.Element // in pool.spare; nil: not there
	since uint64        // pool.listed at its listing there
}

// Users is the number of accounts that have memory for a state that needs the base.
func (s *Base) Users() int {
	s.pool.Lock()
	defer s.pool.Unlock()
	return s.users
}

// size is the memory of a base; of none, 0.
func (s *Base) size() int64 {
	if s == nil {
		return 0
	}
	return s.bytes
}

// needLocked is the memory that one more state takes for the base.
func (s *Base) needLocked() int64 {
	if s == nil || s.held {
		return 0
	}
	return s.bytes
}

// useLocked notes an account that has got memory for a state.
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

// leaveLocked notes an account that has no memory for a state any more.
func (s *Base) leaveLocked() {
	if s == nil {
		return
	}
	if s.users--; s.users == 0 && s.bytes > 0 {
		s.place, s.since = s.pool.spare.PushBack(s), s.pool.stampLocked()
	}
}

// dropSpareLocked drops the base that was used longest ago of those that no state needs, if it was
// listed before the place of a number. The base that is kept is never dropped. It reports whether
// there was one.
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
