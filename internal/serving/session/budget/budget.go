// Package budget limits the memory of sessions: their states, the memory that states share, and
// their text if the store is in memory. It records which states are idle and can be dropped, and
// which callers wait for memory. The type of the states does not matter to it.
//
// Every method that is called once per chunk takes O(1) time under the lock.
package budget

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
)

// FullError is the error if there is not enough memory.
type FullError struct{ reason string }

func (e *FullError) Error() string { return e.reason }

// ErrClosed is the error of operations on a closed account.
var ErrClosed = errors.New("budget: the account is closed")

// Budget limits the total memory of its accounts, in bytes. All methods are safe for concurrent
// use.
type Budget[H any] struct {
	// GiveUp asks a holder to give up its state. Wait and Try call GiveUp, which must not block.
	GiveUp func(H)

	max   int64
	keeps bool

	mu struct {
		pool
		holders int // accounts that have memory for a state
		// idle lists the accounts (*Account[H]) whose state can be given up, least recently used
		// first.
		idle    list.List
		changed chan struct{} // closed when waiting callers should try again; nil if nobody waits
	}
}

// Options configure a Budget.
type Options struct {
	Max   int64 // limit on the bytes of all accounts
	Keeps bool  // states are never given up; Reserve fails when all bytes are taken
}

// New returns an unused budget.
func New[H any](o Options) *Budget[H] {
	return &Budget[H]{max: o.Max, keeps: o.Keeps}
}

// Account counts the bytes of a budget that one holder uses.
type Account[H any] struct {
	budget *Budget[H]
	holder H
	base   *Base        // memory that the state shares with others; may be nil
	bytes  atomic.Int64 // written under budget.mu

	// The fields from here on are guarded by budget.mu.
	state  int64         // bytes of the state; included in the field bytes
	place  *list.Element // element of the list budget.mu.idle; nil if the account is not in it
	since  uint64        // value of pool.listed when the account was added to that list
	closed bool
}

// NewBase returns a base of the given size that is not charged to the budget yet. To free the
// memory of a base, the budget calls drop while it holds its lock. So drop must return soon, and
// must not call the budget.
func (b *Budget[H]) NewBase(bytes int64, drop func()) *Base {
	return &Base{pool: &b.mu.pool, bytes: bytes, drop: drop, held: bytes == 0}
}

// OpenOn opens an empty account for a holder, whose state needs the base; base may be nil.
func (b *Budget[H]) OpenOn(base *Base, holder H) *Account[H] {
	return &Account[H]{budget: b, holder: holder, base: base}
}

// Used returns the number of bytes in all accounts.
func (b *Budget[H]) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.used
}

// Max returns the limit on the bytes of all accounts.
func (b *Budget[H]) Max() int64 { return b.max }

// Holders returns the number of accounts with memory for a state.
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

// Fits returns a *FullError if a state of this size can never be reserved.
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
// holder's next Rest adds it again. Another goroutine may use the state by now, so the caller must
// check. ok is false if no holder is idle.
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
	Asked   bool // whether Victim is set
	Changed <-chan struct{}
}

// Reserve takes memory for the holder's state, and for its base if the base has no memory yet. It
// takes all of this memory or none, so that a waiting holder keeps none from others. It drops bases
// that no state needs. The error is ErrClosed, or a *FullError if waiting cannot help.
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

// Return releases the given number of bytes of the state's memory, at most all of it.
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

// Charge takes memory for text, without waiting. The error is ErrClosed or a *FullError.
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

// Work marks the state as in use, so that it is not given up.
func (a *Account[H]) Work() {
	b := a.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unlistLocked(a)
}

// Rest marks the state as idle: from now on it can be given up.
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

// Bytes returns the account's memory, without waiting for the lock.
func (a *Account[H]) Bytes() int64 { return a.bytes.Load() }

// BytesOf returns the memory of each account. The sum is within the budget, because all values are
// read under one lock.
func (b *Budget[H]) BytesOf(accounts []*Account[H]) []int64 {
	all := make([]int64, len(accounts))
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, a := range accounts {
		all[i] = a.bytes.Load()
	}
	return all
}

// addStateLocked adds bytes to the memory of the state. An account whose state has memory counts as
// a holder.
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

// makeRoomLocked drops extras and then unused bases until the given number of bytes is free. It
// never drops the base kept. It drops a base only if the base was last used before every idle
// state.
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
