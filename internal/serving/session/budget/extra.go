package budget

import "container/list"

// extraShare limits the extras to 1/extraShare of a budget.
const extraShare = 4

// Extra is the memory of a cached result, which can be computed again. When others need memory,
// extras are dropped first.
type Extra struct {
	pool  *pool
	bytes int64
	drop  func()
	place *list.Element // place in pool.extras; nil if it was dropped. Guarded by pool.
}

// Keep takes memory for an extra. To make room, it drops the least recently used extras, but no
// state and no base. It returns nil if there is not enough room. To free the memory later, the
// budget calls drop while it holds its lock. So drop must return soon, and must not call the
// budget.
func (b *Budget[H]) Keep(bytes int64, drop func()) *Extra {
	b.mu.Lock()
	defer b.mu.Unlock()
	most := b.max / extraShare
	if bytes > most || b.mu.used-b.mu.extra+bytes > b.max {
		return nil
	}
	for b.mu.extra+bytes > most || b.mu.used+bytes > b.max {
		b.mu.dropExtraLocked()
	}
	e := &Extra{pool: &b.mu.pool, bytes: bytes, drop: drop}
	e.place = b.mu.extras.PushBack(e)
	b.mu.used += bytes
	b.mu.extra += bytes
	return e
}

// Use marks the extra as the most recently used one.
func (e *Extra) Use() {
	e.pool.Lock()
	defer e.pool.Unlock()
	if e.place != nil {
		e.pool.extras.MoveToBack(e.place)
	}
}

// Release releases the memory, without calling drop. It wakes no waiting callers, because they have
// already dropped all extras.
func (e *Extra) Release() {
	e.pool.Lock()
	defer e.pool.Unlock()
	if e.place != nil {
		e.pool.removeExtraLocked(e)
	}
}

// dropExtraLocked drops the least recently used extra. It returns false if there is no extra.
func (p *pool) dropExtraLocked() bool {
	place := p.extras.Front()
	if place == nil {
		return false
	}
	e := place.Value.(*Extra)
	p.removeExtraLocked(e)
	e.drop()
	return true
}

func (p *pool) removeExtraLocked(e *Extra) {
	p.extras.Remove(e.place)
	e.place = nil
	p.used -= e.bytes
	p.extra -= e.bytes
}
