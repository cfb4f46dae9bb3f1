package budget

import (
	"container/list"
	"sync"
)

// pool counts the memory of a budget's accounts, bases and extras.
type pool struct {
	sync.Mutex
	used   int64     // bytes of all accounts, bases and extras
	spare  list.List // the *Base values that no state uses, least recently used first
	extras list.List // every *Extra, least recently used first
	extra  int64
	listed uint64 // number of additions to the list spare and to the list of idle accounts
}

// stampLocked returns a larger number at each call. The numbers order the elements of two lists by
// age.
func (p *pool) stampLocked() uint64 {
	p.listed++
	return p.listed
}

// Base is memory that several states share: the weights of their model. The budget counts a base
// when memory for its first state is reserved. A base without states stays until its memory is
// needed. Idle states and unused bases are dropped in the order of their last use.
type Base struct {
	pool  *pool
	bytes int64
	drop  func()

	// pool guards the fields below.
	held  bool
	users int
	place *list.Element // element of pool.spare; nil if the base is not in the list
	since uint64        // value of pool.listed when the base was added to pool.spare
}

// Users returns the number of accounts whose state needs the base and has memory.
func (s *Base) Users() int {
	s.pool.Lock()
	defer s.pool.Unlock()
	return s.users
}

func (s *Base) size() int64 {
	if s == nil {
		return 0
	}
	return s.bytes
}

// needLocked returns the bytes that a new state must add for its base: 0 if the base is already
// counted.
func (s *Base) needLocked() int64 {
	if s == nil || s.held {
		return 0
	}
	return s.bytes
}

// useLocked counts one more state that uses the base. It also counts the bytes of the base if they
// are not counted yet.
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

// leaveLocked counts one state less that uses the base. Without states, the base is added to the
// list spare.
func (s *Base) leaveLocked() {
	if s == nil {
		return
	}
	if s.users--; s.users == 0 && s.bytes > 0 {
		s.place, s.since = s.pool.spare.PushBack(s), s.pool.stampLocked()
	}
}

// dropSpareLocked drops the least recently used base of the list spare, except the base kept. It
// drops nothing if the field since of this base is above the parameter `before`. It reports whether
// it dropped a base.
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
