// Package budget limits the memory of sessions: their states, the memory that states share, and
// their text if the store is in memory. It knows which holders can be asked to give up their
// states, and which callers wait for memory. It does not depend on the type of states.
//
// Every call that is made for a chunk takes O(1) time under the lock.
package budget

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
)

// FullError says that there is not enough memory.
type FullError struct{ reason string }

func (e *FullError) Error() string { return e.reason }

// ErrClosed says that an account is closed: its holder is gone.
var ErrClosed = errors.New("budget: the account is closed")

// Budget is a number of bytes that accounts share. All methods are safe for concurrent use.
type Budget[H any] struct {
	// GiveUp asks a holder to give up its state, for Wait and Try. It must not wait for the holder.
	GiveUp func(H)

	max   int64
	keeps bool

	mu struct {
		pool
		holders int // accounts that have memory for a state
		// idle has each *Account[H] whose state can be given up, least recently used first.
		idle    list.List
		changed chan struct{} // closed when waiting callers should try again; nil if nobody waits
	}
}

// Options of a Budget.
type Options struct {
	Max   int64 // bytes of all accounts
	Keeps bool  // states are never given up: when all bytes are taken, Reserve fails
}

// New returns an unused budget.
func New[H any](o Options) *Budget[H] {
	return &Budget[H]{max: o.Max, keeps: o.Keeps}
}

// Account is the part of a budget that one holder has.
type Account[H any] struct {
	budget *Budget[H]
	holder H
	base   *Base        // the base that the state needs; nil if it needs none
	bytes  atomic.Int64 // written under budget.mu

	// Guarded by budget.mu.
	state  int64         // bytes of the state; included in the field bytes
	place  *list.Element // place in idle; nil if the account is not there
	since  uint64        // pool.listed when the account was put in idle
	closed bool
}

// NewBase returns a base without memory. The budget calls drop when it takes the base's memory
// back, under its lock: drop must return soon, and must not call the budget. A base of no bytes
// always has its memory.
func (b *Budget[H]) NewBase(bytes int64, drop func()) *Base {
	return &Base{pool: &b.mu.pool, bytes: bytes, drop: drop, held: bytes == 0}
}

// OpenOn opens an empty account. base is what its state needs; nil if it needs none.
func (b *Budget[H]) OpenOn(base *Base, holder H) *Account[H] {
	return &Account[H]{budget: b, holder: holder, base: base}
}

// Used returns the number of bytes in all accounts.
func (b *Budget[H]) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.used
}

// Max returns the limit in bytes on all accounts.
func (b *Budget[H]) Max() int64 { return b.max }

// Holders returns the number of accounts with memory for a state.
func (b *Budget[H]) Holders() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.holders
}

// Waiting reports whether somebody waits for memory.
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

// Check returns a *FullError if this many more bytes cannot be reserved now.
func (b *Budget[H]) Check(bytes int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.makeRoomLocked(bytes, nil)
}

// Victim removes the least recently used idle holder from the list; its next Rest adds it again.
// The caller must check whether somebody has begun to use the state meanwhile. ok is false if no
// holder is idle.
func (b *Budget[H]) Victim() (holder H, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.victimLocked()
	if a == nil {
		return holder, false
	}
	return a.holder, true
}

// Want is the result of a reservation. If no field is set, the reservation was made. Otherwise it
// has either a holder to ask for its state, or a channel that is closed when another try makes
// sense.
type Want[H any] struct {
	Victim  H
	Asked   bool // Victim is set
	Changed <-chan struct{}
}

// Reserve takes memory for the holder's state and, if its base has none, for the base. It takes all
// or nothing, so that a waiting holder has no memory that others wait for. It drops bases that no
// state needs. The error is ErrClosed, or a *FullError if waiting cannot help.
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

// Wait reserves memory for the holder's state. It asks the least recently used holders to give
// their states up. If all are in use, it waits until the context ends.
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

// Try is Wait without the waiting. changed is nil if the memory was reserved; otherwise it is
// closed when another try makes sense.
func (a *Account[H]) Try(bytes int64) (changed <-chan struct{}, err error) {
	for {
		want, err := a.Reserve(bytes)
		if err != nil || !want.Asked {
			return want.Changed, err
		}
		a.budget.GiveUp(want.Victim)
	}
}

// Return releases a part of the state's memory, at most all of it.
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

// Charge takes memory for text. It never waits; the error is ErrClosed or a *FullError.
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

// Work marks the state as in use: it is not given up.
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

// Close releases everything, for good.
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

// BytesOf returns the memory of accounts at one moment, so that the sum is within the budget.
func (b *Budget[H]) BytesOf(accounts []*Account[H]) []int64 {
	all := make([]int64, len(accounts))
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, a := range accounts {
		all[i] = a.bytes.Load()
	}
	return all
}

// addStateLocked adds to the memory of the state. An account with such memory counts as a holder.
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

// makeRoomLocked drops extras and then bases, except kept, until there is memory for this many more
// bytes. It drops a base only if all idle states were used later than the base.
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
