package budget

import "container/list"

// extraShare bounds the extras: to a budget divided by it.
const extraShare = 4

// Extra is memory of what may be useful again and can be computed again. Extras go before anything
// else, as soon as others want their memory.
type Extra struct {
	pool  *pool
	bytes int64
	drop  func()
	place *list.Element // in pool.extras; nil: dropped. Guarded by pool.
}

// Keep takes memory for an extra. Those used longest ago make room for it; no state and no base
// does. It is nil where there is no room. Its drop is called when its memory is taken away, under
// the budget's lock: it must return soon, and must not call the budget.
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

// Use says that the extra is used: it goes after those that were used before.
func (e *Extra) Use() {
	e.pool.Lock()
	defer e.pool.Unlock()
	if e.place != nil {
		e.pool.extras.MoveToBack(e.place)
	}
}

// Release gives the memory back, without a call of drop. Whoever waits for memory has dropped
// the extras before, so nobody has to wake.
func (e *Extra) Release() {
	e.pool.Lock()
	defer e.pool.Unlock()
	if e.place != nil {
		e.pool.removeExtraLocked(e)
	}
}

// dropExtraLocked drops the extra that was used longest ago. It reports whether there was one.
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
