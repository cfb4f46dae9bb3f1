// Package budget limits the memory of sessions: their states, the memory that states share, and
// their text if the store is in memory. It records which states are idle and can be dropped, and
// which callers wait for memory. It works with states of any type.
//
// Every method that is called once per chunk of text holds the lock for O(1) time.
package budget

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
)

// FullError reports that the budget has too little free memory.
type FullError struct{ reason string }

func (e *FullError) Error() string { return e.reason }

// ErrClosed is the error of operations on a closed account.
var ErrClosed = errors.New("budget: the account is closed")

// Budget limits the total memory of its accounts, in bytes. All methods are safe for concurrent
// use.
type Budget[H any] struct {
	// GiveUp asks a holder to release its state. The methods Wait and Try call GiveUp, so it must
	// not block.
	GiveUp func(H)

	max   int64
	keeps bool

	mu struct {
		pool
		holders int
		// idle lists the accounts (*Account[H]) whose state can be released, least recently used
		// first.
		idle list.List
		// closed when waiting callers should retry; nil if no caller waits
		changed chan struct{}
	}
}

// Options configure a Budget.
type Options struct {
	Max   int64 // the limit in bytes
	Keeps bool  // if true, states are never evicted, and Reserve fails when the budget is full
}

// New returns a budget without accounts.
func New[H any](o Options) *Budget[H] {
	return &Budget[H]{max: o.Max, keeps: o.Keeps}
}

// Account counts the bytes of a budget that one holder uses.
type Account[H any] struct {
	budget *Budget[H]
	holder H
	base   *Base        // memory shared with other accounts; may be nil
	bytes  atomic.Int64 // changed only while budget.mu is locked

	// budget.mu guards the fields below.
	state int64 // bytes of the state, which the field bytes also counts
	// element of the list budget.mu.idle; nil if the account is not in the list
	place  *list.Element
	since  uint64 // value of pool.listed when the account was added to budget.mu.idle
	closed bool
}

// NewBase returns a base of the given size. The budget counts the base when the first state needs
// it. To free the base, the budget calls drop under its lock. So drop must return soon, and must
// not call the budget.
func (b *Budget[H]) NewBase(bytes int64, drop func()) *Base {
	return &Base{pool: &b.mu.pool, bytes: bytes, drop: drop, held: bytes == 0}
}

// OpenOn opens an empty account for a holder. The holder's state needs the base, which may be nil.
func (b *Budget[H]) OpenOn(base *Base, holder H) *Account[H] {
	return &Account[H]{budget: b, holder: holder, base: base}
}

// Used returns the bytes in use: the sum over all accounts, all bases and all extras.
func (b *Budget[H]) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.used
}

// Max returns the limit of the budget in bytes.
func (b *Budget[H]) Max() int64 { return b.max }

// Holders returns the number of accounts whose state has memory.
func (b *Budget[H]) Holders() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.holders
}

// Waiting reports whether any caller waits for memory.
func (b *Budget[H]) Waiting() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.changed != nil
}

// Fits returns a *FullError if a state of this size, with its base, exceeds the limit of the whole
// budget.
func (a *Account[H]) Fits(bytes int64) error {
	if bytes += a.base.size(); bytes > a.budget.max {
		return &FullError{fmt.Sprintf("the state needs %d bytes, but the budget for all "+
			"states is %d bytes", bytes,
			a.budget.max)}
	}
	return nil
}

// Check returns a *FullError if the given number of bytes cannot be reserved now.
func (b *Budget[H]) Check(bytes int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.makeRoomLocked(bytes, nil)
}

// Victim removes the least recently used holder from the list of idle holders and returns it. The
// holder's next Rest adds the holder again. Another goroutine may use the state by now. So the
// caller must check this before it drops the state. ok is false if no holder is idle.
func (b *Budget[H]) Victim() (holder H, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.victimLocked()
	if a == nil {
		return holder, false
	}
	return a.holder, true
}

// Want is the result of Reserve. If no field is set, the memory was reserved. If Asked is set, the
// caller should ask Victim to give up its state. Otherwise the caller should try again when Changed
// is closed.
type Want[H any] struct {
	Victim  H
	Asked   bool
	Changed <-chan struct{}
}

// Reserve reserves memory for the holder's state, and for its base if the base is not counted yet.
// It reserves all of this memory or none, so a waiting holder blocks no memory. To free memory, it
// drops extras and unused bases. The error is ErrClosed, or a *FullError if waiting cannot help.
func (a *Account[H]) Reserve(bytes int64) (want Want[H], err error) {
	b := a.budget
	if err := a.Fits(bytes); err != nil {
		return want, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if a.closed {
		return want, ErrClosed
	}
	full := b.makeRoomLocked(bytes+a.base.needLocked(), a.base)
	switch {
	case full == nil:
		a.addStateLocked(bytes)
		return want, nil
	case b.keeps:
		return want, full
	}
	if victim := b.victimLocked(); victim != nil {
		return Want[H]{Victim: victim.holder, Asked: true}, nil
	}
	if b.mu.changed == nil {
		b.mu.changed = make(chan struct{})
	}
	return Want[H]{Changed: b.mu.changed}, nil
}

// Wait reserves memory for the holder's state. While there is too little memory, it asks idle
// holders to give up their states, the least recently used first. If no holder is idle, it waits
// until memory is free or the context ends.
func (a *Account[H]) Wait(ctx context.Context, bytes int64) error {
	for {
		changed, err := a.Try(bytes)
		if err != nil || changed == nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Try does the same as Wait, but does not wait. If the memory was reserved, changed is nil.
// Otherwise changed is closed when the caller should try again.
func (a *Account[H]) Try(bytes int64) (changed <-chan struct{}, err error) {
	for {
		want, err := a.Reserve(bytes)
		if err != nil || !want.Asked {
			return want.Changed, err
		}
		a.budget.GiveUp(want.Victim)
	}
}

// Return releases the given number of bytes of the state's memory. If the state has fewer bytes, it
// releases all of them.
func (a *Account[H]) Return(bytes int64) {
	a.budget.free(func() { a.addStateLocked(-min(bytes, a.state)) })
}

// Release releases the memory of the state.
func (a *Account[H]) Release() {
	a.budget.free(func() {
		a.addStateLocked(-a.state)
		a.budget.unlistLocked(a)
	})
}

// Charge counts memory for text. It does not wait for free memory. The error is ErrClosed or a
// *FullError.
func (a *Account[H]) Charge(bytes int64) error {
	b := a.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if a.closed {
		return ErrClosed
	}
	if bytes == 0 {
		return nil
	}
	if err := b.makeRoomLocked(bytes, nil); err != nil {
		return err
	}
	a.addLocked(bytes)
	return nil
}

// Refund releases memory that Charge took. It does nothing on a closed account.
func (a *Account[H]) Refund(bytes int64) {
	b := a.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if !a.closed {
		a.addLocked(-bytes)
	}
}

// Work marks the state as in use, so that it is not evicted.
func (a *Account[H]) Work() {
	b := a.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unlistLocked(a)
}

// Rest marks the state as idle, so that it can be evicted.
func (a *Account[H]) Rest() {
	b := a.budget
	b.free(func() {
		b.unlistLocked(a)
		if a.state > 0 {
			a.place, a.since = b.mu.idle.PushBack(a), b.mu.stampLocked()
		}
	})
}

// Close releases all memory of the account. The account cannot be used again.
func (a *Account[H]) Close() {
	a.budget.free(func() {
		a.closed = true
		a.addStateLocked(-a.state)
		a.addLocked(-a.bytes.Load())
		a.budget.unlistLocked(a)
	})
}

// Bytes returns the bytes of the account. It takes no lock.
func (a *Account[H]) Bytes() int64 { return a.bytes.Load() }

// BytesOf returns the bytes of each account. It reads all values under one lock, so their sum is
// within the budget.
func (b *Budget[H]) BytesOf(accounts []*Account[H]) []int64 {
	all := make([]int64, len(accounts))
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, a := range accounts {
		all[i] = a.bytes.Load()
	}
	return all
}

// addStateLocked adds bytes to the memory of the state; bytes may be negative. It updates the
// number of holders and the use of the base.
func (a *Account[H]) addStateLocked(bytes int64) {
	had := a.state > 0
	a.state += bytes
	a.addLocked(bytes)
	if has := a.state > 0; has && !had {
		a.budget.mu.holders++
		a.base.useLocked()
	} else if had && !has {
		a.budget.mu.holders--
		a.base.leaveLocked()
	}
}

func (a *Account[H]) addLocked(bytes int64) {
	a.bytes.Add(bytes)
	a.budget.mu.used += bytes
}

func (b *Budget[H]) roomLocked(bytes int64) error {
	if b.mu.used+bytes > b.max {
		return &FullError{fmt.Sprintf("%d of %d bytes of memory are in use", b.mu.used, b.max)}
	}
	return nil
}

// makeRoomLocked drops extras, then unused bases, until the given number of bytes is free. It never
// drops the base kept. It drops a base only if every idle state was used later.
func (b *Budget[H]) makeRoomLocked(bytes int64, kept *Base) error {
	before := uint64(math.MaxUint64)
	if first := b.mu.idle.Front(); first != nil && !b.keeps {
		before = first.Value.(*Account[H]).since
	}
	full := b.roomLocked(bytes)
	for full != nil && b.mu.dropExtraLocked() {
		full = b.roomLocked(bytes)
	}
	for full != nil && b.mu.dropSpareLocked(kept, before) {
		full = b.roomLocked(bytes)
	}
	return full
}

func (b *Budget[H]) victimLocked() *Account[H] {
	front := b.mu.idle.Front()
	if front == nil {
		return nil
	}
	a := front.Value.(*Account[H])
	b.unlistLocked(a)
	return a
}

func (b *Budget[H]) unlistLocked(a *Account[H]) {
	if a.place != nil {
		b.mu.idle.Remove(a.place)
		a.place = nil
	}
}

// free releases memory under the lock. It wakes waiting callers after unlocking, because waking
// takes time in proportion to their number.
func (b *Budget[H]) free(give func()) {
	b.mu.Lock()
	give()
	wake := b.mu.changed
	b.mu.changed = nil
	b.mu.Unlock()
	if wake != nil {
		close(wake)
	}
}
