package budget

import "container/list"

// Base is what several states need beside memory of their own, and have together: the weights of
// the model that they are states of. It takes memory with the first state that needs it. When no
// state needs it any more it stays, until others want the memory: it is dropped in its turn among
// the states that can be given up.
type Base[H any] struct {
	budget *Budget[H]
	bytes  int64
	drop   func()

	// Guarded by budget.mu.
	held  bool
	users int           // accounts that have memory for a state
	place *list.Element // in spare; nil: not there
	since uint64        // Budget.mu.listed at its listing in spare
}

// NewBase makes a base that has no memory yet. Its drop is called when its memory is taken away: it
// must return soon, and must not call the budget. A base of no bytes has its memory always.
func (b *Budget[H]) NewBase(bytes int64, drop func()) *Base[H] {
	return &Base[H]{budget: b, bytes: bytes, drop: drop, held: bytes == 0}
}

// Users is the number of accounts that have memory for a state that needs the base.
func (s *Base[H]) Users() int {
	s.budget.mu.Lock()
	defer s.budget.mu.Unlock()
	return s.users
}

// size is the memory of a base; of none, 0.
func (s *Base[H]) size() int64 {
	if s == nil {
		return 0
	}
	return s.bytes
}

// needLocked is the memory that one more state takes for the base.
func (s *Base[H]) needLocked() int64 {
	if s == nil || s.held {
		return 0
	}
	return s.bytes
}

// useLocked notes an account that has got memory for a state.
func (s *Base[H]) useLocked() {
	if s == nil {
		return
	}
	s.budget.mu.used += s.needLocked()
	s.held = true
	s.users++
	if s.place != nil {
		s.budget.mu.spare.Remove(s.place)
		s.place = nil
	}
}

// leaveLocked notes an account that has no memory for a state any more.
func (s *Base[H]) leaveLocked() {
	if s == nil {
		return
	}
	if s.users--; s.users == 0 && s.bytes > 0 {
		s.place, s.since = s.budget.mu.spare.PushBack(s), s.budget.stampLocked()
	}
}

// dropSpareLocked drops the base that was used longest ago of those that no state needs, unless a
// state that can be given up was used longer ago; then that one is to go first. The base that is
// kept is never dropped. It reports whether there was one.
func (b *Budget[H]) dropSpareLocked(kept *Base[H]) bool {
	place := b.mu.spare.Front()
	if place != nil && place.Value.(*Base[H]) == kept {
		place = place.Next()
	}
	if place == nil {
		return false
	}
	s := place.Value.(*Base[H])
	if idle := b.mu.idle.Front(); idle != nil && !b.keeps && idle.Value.(*Account[H]).since < s.since {
		return false
	}
	b.mu.spare.Remove(place)
	s.place, s.held = nil, false
	b.mu.used -= s.bytes
	s.drop()
	return true
}

// stampLocked numbers the places in the two lists, in the order in which they are given.
func (b *Budget[H]) stampLocked() uint64 {
	b.mu.listed++
	return b.mu.listed
}
