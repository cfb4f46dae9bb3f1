// Package budget bounds the memory of sessions: their states, what states share, and their text
// where the store is memory too. It knows who may be asked to give a state up, and who waits; it
// knows nothing of states.
//
// Everything a chunk asks for costs O(1) under the lock.
package budget

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
)

// FullError says that there is not so much memory.
type FullError struct{ reason string }

func (e *FullError) Error() string { return e.reason }

// ErrClosed says that an account is closed: its holder is gone.
var ErrClosed = errors.New("budget: the account is closed")

// Budget is a number of bytes, and the accounts that share them. All methods may be called at once.
type Budget[H any] struct {
	// GiveUp asks a holder, for Wait and Try, to give up its state; it must not wait for the
	// holder.
	GiveUp func(H)

	max   int64
	keeps bool

	mu struct {
		pool
		holders int // accounts that have memory for a state
		// idle has the *Account[H] whose state can be given up, the one used longest ago first.
		idle    list.List
		changed chan struct{} // closed when those that wait should try again; nil: nobody waits
	}
}

// Options of a Budget.
type Options struct {
	Max   int64 // bytes of all accounts
	Keeps bool  // states are never given up: when all bytes are taken, there are no more
}

// New makes a budget of which nothing is taken.
func New[H any](o Options) *Budget[H] {
	return &Budget[H]{max: o.Max, keeps: o.Keeps}
}

// Account is what one holder has of a budget.
type Account[H any] struct {
	budget *Budget[H]
	holder H
	base   *Base        // that a state needs; nil: none
	bytes  atomic.Int64 // written under budget.mu

	// Guarded by budget.mu.
	state  int64         // of bytes: the state's
	place  *list.Element // in idle; nil: not there
	since  uint64        // pool.listed at its listing in idle
	closed bool
}

// NewBase makes a base that has no memory yet. Its drop is called when its memory is taken away,
// under the budget's lock: it must return soon, and must not call the budget. A base of no bytes
// has its memory always.
func (b *Budget[H]) NewBase(bytes int64, drop func()) *Base {
	return &Base{pool: &b.mu.pool, bytes: bytes, drop: drop, held: bytes == 0}
}

// OpenOn makes an account that has nothing, whose state needs a base; nil: none.
func (b *Budget[H]) OpenOn(base *Base, holder H) *Account[H] {
	return &Account[H]{budget: b, holder: holder, base: base}
}

// Used is the number of bytes that all accounts have.
func (b *Budget[H]) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.used
}

// Max is the number of bytes that there are for all accounts.
func (b *Budget[H]) Max() int64 { return b.max }

// Holders is the number of accounts that have memory for a state.
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

// Fits reports, as a *FullError, that a state of so many bytes could never have its memory.
func (a *Account[H]) Fits(bytes int64) error {
	if bytes += a.base.size(); bytes > a.budget.max {
		return &FullError{fmt.Sprintf("a state of %d bytes, there are %d for all", bytes,
			a.budget.max)}
	}
	return nil
}

// Check reports, as a *FullError, that so many bytes more could not be had now.
func (b *Budget[H]) Check(bytes int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.makeRoomLocked(bytes, nil)
}

// Victim removes the holder from the list of those that are idle whose state was used longest ago.
// It is listed again by its next Rest. Whoever asks has to find out whether somebody has begun to
// work on the state in the meantime. It reports false if nobody is idle.
func (b *Budget[H]) Victim() (holder H, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.victimLocked()
	if a == nil {
		return holder, false
	}
	return a.holder, true
}

// Want is what becomes of a reservation: it was made, if neither field is set; or there is a holder
// that can be asked to give up its state; or a channel that is closed when it is worth another try.
type Want[H any] struct {
	Victim  H
	Asked   bool // there is a Victim
	Changed <-chan struct{}
}

// Reserve takes memory for the holder's state, and with it for its base, if that has none: whoever
// waits has nothing that others wait for. A base that no state needs is dropped for it. The error
// is ErrClosed, or a *FullError where waiting is of no use.
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

// Wait reserves memory for the holder's state. Holders whose states were used longest ago are asked
// to give them up; if all are at work, Wait waits until the context ends.
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

// Try is Wait without the waiting: changed is nil if the memory was reserved; else it is closed
// when another try makes sense.
func (a *Account[H]) Try(bytes int64) (changed <-chan struct{}, err error) {
	for {
		want, err := a.Reserve(bytes)
		if err != nil || !want.Asked {
			return want.Changed, err
		}
		a.budget.GiveUp(want.Victim)
	}
}

// Return gives back a part of the memory of the state, or all that it has if that is less.
func (a *Account[H]) Return(bytes int64) {
	a.budget.free(func() { a.addStateLocked(-min(bytes, a.state)) })
}

// Release gives back the memory of the state.
func (a *Account[H]) Release() {
	a.budget.free(func() {
		a.addStateLocked(-a.state)
		a.budget.unlistLocked(a)
	})
}

// Charge takes memory for text. The error is ErrClosed or a *FullError; nobody waits for text.
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

// Refund gives back memory that Charge took. A closed account has given it back.
func (a *Account[H]) Refund(bytes int64) {
	b := a.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if !a.closed {
		a.addLocked(-bytes)
	}
}

// Work says that somebody is at work on the state: it is not given up.
func (a *Account[H]) Work() {
	b := a.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unlistLocked(a)
}

// Rest says that nobody is at work on the state any more, which can be given up from now on.
func (a *Account[H]) Rest() {
	b := a.budget
	b.free(func() {
		b.unlistLocked(a)
		if a.state > 0 {
			a.place, a.since = b.mu.idle.PushBack(a), b.mu.stampLocked()
		}
	})
}

// Close gives back everything, for good.
func (a *Account[H]) Close() {
	a.budget.free(func() {
		a.closed = true
		a.addStateLocked(-a.state)
		a.addLocked(-a.bytes.Load())
		a.budget.unlistLocked(a)
	})
}

// Bytes is what the account has, without waiting for the lock.
func (a *Account[H]) Bytes() int64 { return a.bytes.Load() }

// BytesOf is what accounts have at one moment: all of it together is within the budget.
func (b *Budget[H]) BytesOf(accounts []*Account[H]) []int64 {
	all := make([]int64, len(accounts))
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, a := range accounts {
		all[i] = a.bytes.Load()
	}
	return all
}

// addStateLocked adds to the memory of the state, which is that of a holder as long as there is
// any.
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

// makeRoomLocked drops extras and then bases, but for the one that is kept, until there is room. A
// base is dropped as long as no state that can be given up was used longer ago.
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

// free gives memory back under the lock, and wakes those who wait outside of it: that costs as much
// as there are who wait.
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
