// Package registry is the ordered index of live sessions: their ids, owners and names, how many
// each owner has, and when each expires. It knows nothing of what a session is; times and limits
// come in as plain values.
//
// A session that is being made has its place reserved (Reserve), and then enters it (Enter) or
// gives it up (Cancel). One that a store already has is added beyond all limits (Add).
//
// Every operation costs O(log n), a page O(page + log n).
package registry

import (
	"cmp"
	"errors"
	"sync"
	"time"

	"github.com/google/btree"
)

// Errors of Reserve.
var (
	ErrQuota = errors.New("registry: the owner has as many sessions as it may have")
	ErrFull  = errors.New("registry: there are as many sessions as there may be")
	ErrName  = errors.New("registry: another session of the owner has the name")
)

// degree is that of the trees: a node has up to twice as many entries.
const degree = 32

// Entry is a session in the index. The exported fields never change once it has entered.
type Entry[S any] struct {
	ID    string
	Owner string
	Value S

	// Guarded by Registry.mu.
	name     string        // by which its owner finds the session, too; "": none
	becomes  string        // the name that is reserved for it by Rename; "": none
	ttl      time.Duration // the session expires when it has not been used for so long; 0: never
	lastUsed time.Time
	idle     time.Time // since when: lastUsed or, if that is later, the start of the server
	users    int       // requests at work on the session, which does not expire under them
	present  bool      // it has entered, and was not removed
	deadline time.Time // under which deadlines has the entry; zero: deadlines does not have it
}

// NewEntry describes a session that was used last at a time. A name of "" is none.
func NewEntry[S any](
	id, owner, name string, ttl time.Duration, lastUsed time.Time, value S,
) *Entry[S] {
	return &Entry[S]{
		ID: id, Owner: owner, Value: value, name: name, ttl: ttl, lastUsed: lastUsed,
		idle: lastUsed,
	}
}

func (e *Entry[S]) expired(now time.Time) bool {
	return e.ttl > 0 && e.users == 0 && now.Sub(e.idle) >= e.ttl
}

type owner[S any] struct {
	places int
	byID   *btree.BTreeG[*Entry[S]]
	byName map[string]*naming[S] // of sessions that have names; nil: none ever had
}

// naming is a name that an owner has given.
type naming[S any] struct {
	entry *Entry[S]     // nil: the session is being made, or is being given the name
	made  chan struct{} // closed when that has ended, well or not
}

// reserve takes a name for a session that is being made, or given the name; "" is none.
func (o *owner[S]) reserve(name string) {
	if name == "" {
		return
	}
	if o.byName == nil {
		o.byName = map[string]*naming[S]{}
	}
	o.byName[name] = &naming[S]{made: make(chan struct{})}
}

// enter gives a session its name, which was reserved.
func (o *owner[S]) enter(e *Entry[S]) {
	if n := o.byName[e.name]; n != nil {
		n.entry = e
		close(n.made)
	}
}

// cancel gives up a name that was reserved.
func (o *owner[S]) cancel(name string) {
	if n := o.byName[name]; n != nil {
		close(n.made)
		delete(o.byName, name)
	}
}

// finds reports whether the name of a session finds it: of two that have the same it finds one.
func (o *owner[S]) finds(e *Entry[S]) bool {
	n := o.byName[e.name]
	return n != nil && n.entry == e
}

// forget takes away the name of a session.
func (o *owner[S]) forget(e *Entry[S]) {
	if o.finds(e) {
		delete(o.byName, e.name)
	}
}

// Registry is the index of up to a number of sessions. All methods may be called at once.
type Registry[S any] struct {
	max   int
	nodes *btree.FreeListG[*Entry[S]] // shared by the trees of all owners

	mu struct {
		sync.Mutex
		byID      *btree.BTreeG[*Entry[S]]
		deadlines *btree.BTreeG[*Entry[S]] // entries that nobody uses and that can expire
		owners    map[string]*owner[S]
		places    int // sessions, and those that are being made
	}
}

// New makes an empty registry in which up to max sessions find a place.
func New[S any](max int) *Registry[S] {
	r := &Registry[S]{max: max, nodes: btree.NewFreeListG[*Entry[S]](btree.DefaultFreeListSize)}
	r.mu.byID = btree.NewWithFreeListG(degree, byID[S], r.nodes)
	r.mu.deadlines = btree.NewWithFreeListG(degree, byDeadline[S], r.nodes)
	r.mu.owners = map[string]*owner[S]{}
	return r
}

func byID[S any](a, b *Entry[S]) bool { return a.ID < b.ID }

func byDeadline[S any](a, b *Entry[S]) bool {
	return cmp.Or(a.deadline.Compare(b.deadline), cmp.Compare(a.ID, b.ID)) < 0
}

// Reserve takes a place, and a name unless it is "", for a session that is to be made. The error is
// ErrName if a session of the owner has the name, or is being made with it; ErrQuota if the owner
// has most sessions (0: any number); ErrFull if all places are taken.
func (r *Registry[S]) Reserve(owner, name string, most int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.mu.owners[owner]
	switch {
	case o != nil && o.byName[name] != nil:
		return ErrName
	case o != nil && most > 0 && o.places >= most:
		return ErrQuota
	case r.mu.places >= r.max:
		return ErrFull
	}
	r.occupyLocked(owner).reserve(name)
	return nil
}

// Cancel gives up a place and a name that were reserved.
func (r *Registry[S]) Cancel(owner, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.owners[owner].cancel(name)
	r.vacateLocked(owner)
}

// Enter puts a session into the place, and under the name, that were reserved for it.
func (r *Registry[S]) Enter(e *Entry[S]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.insertLocked(e)
	r.mu.owners[e.Owner].enter(e)
}

// Add puts a session that exists already into a place beyond all limits, and reports whether it
// did: an id that is taken is left as it is. A name that is taken stays that of the session that
// was added first; the other is found by its id alone. The session counts as unused from now on:
// the clock may have been wrong when it was used last, or be wrong now.
func (r *Registry[S]) Add(e *Entry[S], now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.idle = now
	if r.mu.byID.Has(e) {
		return false
	}
	o := r.occupyLocked(e.Owner)
	r.insertLocked(e)
	if o.byName[e.name] == nil {
		o.reserve(e.name)
		o.enter(e)
	}
	return true
}

// Rename reserves another name for a session ("": none). settle must follow: with true the session
// gets the name, with false it keeps its own. The error is ErrName if another session of the owner
// has the name, or is being made with it. Removing the session gives the reserved name up.
func (r *Registry[S]) Rename(e *Entry[S], name string) (settle func(renamed bool), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.mu.owners[e.Owner]
	switch {
	case !e.present, name == e.name && (name == "" || o.finds(e)):
		return func(bool) {}, nil
	case o.byName[name] != nil:
		return nil, ErrName
	}
	e.becomes = name
	o.reserve(name)
	return func(renamed bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		e.becomes = ""
		switch {
		case !e.present:
		case !renamed:
			o.cancel(name)
		default:
			o.forget(e)
			e.name = name
			o.enter(e)
		}
	}, nil
}

// Remove takes a session out, and reports whether it was there.
func (r *Registry[S]) Remove(e *Entry[S]) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.removeLocked(e)
}

// Drop is Remove unless a request is at work on the session.
func (r *Registry[S]) Drop(e *Entry[S]) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return e.users == 0 && r.removeLocked(e)
}

// Find returns the entry of an id, nil if there is none that has not expired.
func (r *Registry[S]) Find(id string, now time.Time) *Entry[S] {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.mu.byID.Get(&Entry[S]{ID: id})
	if !ok || e.expired(now) {
		return nil
	}
	return e
}

// Named returns the entry of an owner's name, nil if there is none that has not expired. While a
// session of this name is being made, or is being given it, the entry is nil, and making is closed
// when that has ended; else making is nil.
func (r *Registry[S]) Named(
	owner, name string, now time.Time,
) (e *Entry[S], making <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.mu.owners[owner]
	if o == nil || o.byName[name] == nil {
		return nil, nil
	}
	switch n := o.byName[name]; {
	case n.entry == nil:
		return nil, n.made
	case n.entry.expired(now):
		return nil, nil
	default:
		return n.entry, nil
	}
}

// Use begins a request on a session, which does not expire until Done ends the request. It reports
// false, and begins nothing, if the session was removed or has expired.
func (r *Registry[S]) Use(e *Entry[S], now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !e.present || e.expired(now) {
		return false
	}
	e.users++
	r.unscheduleLocked(e)
	return true
}

// Done ends what Use has begun.
func (r *Registry[S]) Done(e *Entry[S]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.users--
	r.scheduleLocked(e)
}

// Touch sets when a session was used last. Its caller uses the session.
func (r *Registry[S]) Touch(e *Entry[S], now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.lastUsed, e.idle = now, now
}

// SetTTL sets after how long without use a session expires; 0: never.
func (r *Registry[S]) SetTTL(e *Entry[S], ttl time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unscheduleLocked(e)
	e.ttl = ttl
	r.scheduleLocked(e)
}

// LastUsed returns when a session was used last.
func (r *Registry[S]) LastUsed(e *Entry[S]) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return e.lastUsed
}

// Page returns up to limit sessions in the order of their ids, beginning after one ("": at the
// first), and whether there are more. Sessions that have expired are not on it; Expire should come
// first, so that there are few of these to skip.
func (r *Registry[S]) Page(after string, limit int, now time.Time) (page []*Entry[S], more bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return pageOf(r.mu.byID, after, limit, now)
}

// PageOf is Page for the sessions of one owner.
func (r *Registry[S]) PageOf(
	owner, after string, limit int, now time.Time,
) (page []*Entry[S], more bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if o := r.mu.owners[owner]; o != nil {
		return pageOf(o.byID, after, limit, now)
	}
	return nil, false
}

func pageOf[S any](
	tree *btree.BTreeG[*Entry[S]], after string, limit int, now time.Time,
) (page []*Entry[S], more bool) {
	tree.AscendGreaterOrEqual(&Entry[S]{ID: after}, func(e *Entry[S]) bool {
		if e.ID == after || e.expired(now) {
			return true
		}
		if more = len(page) == limit; !more {
			page = append(page, e)
		}
		return !more
	})
	return page, more
}

// Expire removes up to limit sessions that have expired, and returns them. Fewer than limit means
// that no other has.
func (r *Registry[S]) Expire(now time.Time, limit int) (expired []*Entry[S]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(expired) < limit {
		e, ok := r.mu.deadlines.Min()
		if !ok || e.deadline.After(now) {
			break
		}
		r.removeLocked(e)
		expired = append(expired, e)
	}
	return expired
}

// Places is the number of sessions, those being made included.
func (r *Registry[S]) Places() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.places
}

func (r *Registry[S]) occupyLocked(name string) *owner[S] {
	o := r.mu.owners[name]
	if o == nil {
		o = &owner[S]{byID: btree.NewWithFreeListG(degree, byID[S], r.nodes)}
		r.mu.owners[name] = o
	}
	o.places++
	r.mu.places++
	return o
}

func (r *Registry[S]) vacateLocked(name string) {
	r.mu.places--
	o := r.mu.owners[name]
	if o.places--; o.places == 0 {
		delete(r.mu.owners, name)
	}
}

func (r *Registry[S]) insertLocked(e *Entry[S]) {
	e.present = true
	r.mu.byID.ReplaceOrInsert(e)
	r.mu.owners[e.Owner].byID.ReplaceOrInsert(e)
	r.scheduleLocked(e)
}

func (r *Registry[S]) removeLocked(e *Entry[S]) bool {
	if !e.present {
		return false
	}
	r.unscheduleLocked(e)
	o := r.mu.owners[e.Owner]
	o.byID.Delete(e)
	o.forget(e)
	o.cancel(e.becomes)
	r.mu.byID.Delete(e)
	e.present = false
	r.vacateLocked(e.Owner)
	return true
}

// scheduleLocked notes when a session expires that nobody uses.
func (r *Registry[S]) scheduleLocked(e *Entry[S]) {
	if e.present && e.ttl > 0 && e.users == 0 {
		e.deadline = e.idle.Add(e.ttl)
		r.mu.deadlines.ReplaceOrInsert(e)
	}
}

func (r *Registry[S]) unscheduleLocked(e *Entry[S]) {
	if !e.deadline.IsZero() {
		r.mu.deadlines.Delete(e)
		e.deadline = time.Time{}
	}
}
