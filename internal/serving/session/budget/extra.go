package budget

import "container/list"

// extraShare limits the memory of cached results to 1/extraShare of the budget.
const extraShare = 4

// Extra is the memory of a cached result that can be computed again. The budget drops extras before
// bases and states.
type Extra struct {
	pool  *pool
	bytes int64
	drop  func()
	// element of pool.extras, nil after the extra was dropped; pool guards the field
	place *list.Element
}

// Keep reserves memory for an extra. To free memory, it drops the least recently used extras, but
// no state and no base. It returns nil if there is still too little memory. To free the extra
// later, the budget calls drop under its lock. So drop must return soon, and must not call the
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

// Release releases the memory of the extra, without calling drop. It wakes no waiting callers,
// because these dropped all extras before they began to wait.
func (e *Extra) Release() {
	e.pool.Lock()
	defer e.pool.Unlock()
	if e.place != nil {
		e.pool.removeExtraLocked(e)
	}
}

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
