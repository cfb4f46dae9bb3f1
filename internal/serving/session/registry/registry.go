// Package registry is the ordered index of live sessions. It contains their ids, owners, names and
// times of expiry, and the number of sessions of each owner. It does not depend on the type of
// sessions.
//
// To make a session, call Reserve, and then Enter to add the session or Cancel to release its
// place. Add adds an existing session without checking limits.
//
// Every operation takes O(log n) for n sessions, and a page of p sessions takes O(p + log n).
package registry

import (
	"cmp"
	"errors"
	"sync"
	"time"

	"github.com/google/btree"
)

// These are the errors of Reserve.
var (
	ErrQuota = errors.New("registry: the owner's session limit is reached")
	ErrFull  = errors.New("registry: the session limit is reached")
	ErrName  = errors.New("registry: another session of the same owner already has this name")
)

// degree is the degree of the B-trees: a node has at most 2*degree-1 entries.
const degree = 32

// Entry is a session in the index. Its exported fields are immutable after Enter or Add.
type Entry[S any] struct {
	ID    string
	Owner string
	Value S

	// The fields below are guarded by Registry.mu.
	name     string
	becomes  string
	ttl      time.Duration // time without use after which the session expires; 0 means never
	lastUsed time.Time
	idle     time.Time
	users    int
	present  bool
	deadline time.Time
}

// NewEntry returns an entry that was last used at lastUsed. Parameter name may be "".
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
	byName map[string]*naming[S]
}

// naming records which session uses a name of an owner.
type naming[S any] struct {
	entry *Entry[S]
	made  chan struct{} // closed when the session is made or renamed, or when that fails
}

func (o *owner[S]) reserve(name string) {
	if name == "" {
		return
	}
	if o.byName == nil {
		o.byName = map[string]*naming[S]{}
	}
	o.byName[name] = &naming[S]{made: make(chan struct{})}
}

func (o *owner[S]) enter(e *Entry[S]) {
	if n := o.byName[e.name]; n != nil {
		n.entry = e
		close(n.made)
	}
}

func (o *owner[S]) cancel(name string) {
	if n := o.byName[name]; n != nil {
		close(n.made)
		delete(o.byName, name)
	}
}

// finds reports whether the session can be found by its name. If several sessions of an owner have
// the same name, only one of them can.
func (o *owner[S]) finds(e *Entry[S]) bool {
	n := o.byName[e.name]
	return n != nil && n.entry == e
}

func (o *owner[S]) forget(e *Entry[S]) {
	if o.finds(e) {
		delete(o.byName, e.name)
	}
}

// Registry is an index of a limited number of sessions. All methods are safe for concurrent use.
type Registry[S any] struct {
	max   int
	nodes *btree.FreeListG[*Entry[S]]

	mu struct {
		sync.Mutex
		byID      *btree.BTreeG[*Entry[S]]
		deadlines *btree.BTreeG[*Entry[S]]
		owners    map[string]*owner[S]
		places    int // sessions in the index, and sessions that are being made
	}
}

// New returns an empty registry for at most max sessions.
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

// Reserve reserves a place for a new session, and its name unless the name is "". The error is
// ErrName if another session of the owner has the name or is being made with it. The error is
// ErrQuota if the owner has at least parameter `most` sessions, where 0 means no limit. The error
// is ErrFull if all places are taken.
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

// Cancel releases a reserved place and name.
func (r *Registry[S]) Cancel(owner, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.owners[owner].cancel(name)
	r.vacateLocked(owner)
}

// Enter adds a session whose place and name were reserved. It returns false, and does nothing, if
// the id is already in the index. The caller must then call Cancel.
func (r *Registry[S]) Enter(e *Entry[S]) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.byID.Has(e) {
		return false
	}
	r.insertLocked(e)
	r.mu.owners[e.Owner].enter(e)
	return true
}

// Add adds an existing session without checking limits. It returns false if the id is already in
// the index. If another session of the owner has the same name, the added session can be found only
// by its id. The session's time without use begins now, because the clock may have been wrong at
// its last use.
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

// Rename reserves a new name for a session; "" removes the old name. The caller must then call
// settle: settle(true) gives the session the new name, and settle(false) releases the new name. The
// error is ErrName if another session of the owner has the name or is being made with it. Removing
// the session also releases the new name.
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

// Remove removes a session, and reports whether the session was in the index.
func (r *Registry[S]) Remove(e *Entry[S]) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.removeLocked(e)
}

// Drop removes a session like Remove, unless a request is using the session.
func (r *Registry[S]) Drop(e *Entry[S]) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return e.users == 0 && r.removeLocked(e)
}

// Find returns the entry with an id, or nil if there is none or it has expired.
func (r *Registry[S]) Find(id string, now time.Time) *Entry[S] {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.mu.byID.Get(&Entry[S]{ID: id})
	if !ok || e.expired(now) {
		return nil
	}
	return e
}

// Named returns the entry with an owner's name, or nil if there is none or it has expired. While a
// session with this name is being made or renamed, the entry is nil and making is not nil. The
// channel making is closed when the session is made or renamed, or when that fails.
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

// Use marks a session as in use by a request, so that it does not expire until Done. It returns
// false, and does nothing, if the session was removed or has expired.
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

// Done ends a use of a session that Use began.
func (r *Registry[S]) Done(e *Entry[S]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.users--
	r.scheduleLocked(e)
}

// Touch sets the time of a session's last use. It must be called between Use and Done.
func (r *Registry[S]) Touch(e *Entry[S], now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.lastUsed, e.idle = now, now
}

// SetTTL sets the time after which an unused session expires; 0 means never.
func (r *Registry[S]) SetTTL(e *Entry[S], ttl time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unscheduleLocked(e)
	e.ttl = ttl
	r.scheduleLocked(e)
}

// LastUsed returns the time of a session's last use.
func (r *Registry[S]) LastUsed(e *Entry[S]) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return e.lastUsed
}

// Page returns up to limit sessions in the order of their ids, and whether more sessions follow.
// The page starts after the given id, or with the first session if the id is "". Page skips expired
// sessions; after a call of Expire few of them are left.
func (r *Registry[S]) Page(after string, limit int, now time.Time) (page []*Entry[S], more bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return pageOf(r.mu.byID, after, limit, now)
}

// PageOf does the same as Page, but returns only sessions of one owner.
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

// Expire removes and returns up to limit expired sessions. If it returns fewer than limit, no other
// session has expired.
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

// Places returns the number of sessions, including sessions that are being made.
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
