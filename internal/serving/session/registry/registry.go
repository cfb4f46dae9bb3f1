// Package registry is the ordered index of live sessions: their ids, owners and names, the number
// of each owner's sessions, and when each expires. It knows nothing else about sessions; times and
// limits are plain values.
//
// Reserve reserves the place of a session that is being made; Enter then adds the session, or
// Cancel releases the place. Add adds an existing session in spite of limits.
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
	ErrQuota = errors.New("registry: the owner's session limit is reached")
	ErrFull  = errors.New("registry: the session limit is reached")
	ErrName  = errors.New("registry: another session of the same owner already has this name")
)

// degree of the trees: a node has up to twice as many entries.
const degree = 32

// Entry is a session in the index. Its exported fields are immutable after Enter or Add.
type Entry[S any] struct {
	ID    string
	Owner string
	Value S

	// Guarded by Registry.mu.
	name     string        // the owner's name for the session, or ""
	becomes  string        // the name reserved for it by Rename, or ""
	ttl      time.Duration // the session expires after this time without use; 0 means never
	lastUsed time.Time
	idle     time.Time // lastUsed or, if that is later, the start of the server
	users    int       // requests that use the session, which does not expire meanwhile
	present  bool      // the entry was added, and not removed
	deadline time.Time // its key in deadlines; zero: it is not there
}

// NewEntry returns an entry last used at lastUsed. A name of "" is none.
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
	byName map[string]*naming[S] // entries by name; nil if no session ever had a name
}

// naming is a name in use by an owner.
type naming[S any] struct {
	entry *Entry[S]     // nil while the session is being made, or getting the name
	made  chan struct{} // closed when making or naming has ended
}

// reserve takes a name for a session that is being made or renamed; "" is none.
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

// cancel releases a reserved name.
func (o *owner[S]) cancel(name string) {
	if n := o.byName[name]; n != nil {
		close(n.made)
		delete(o.byName, name)
	}
}

// finds reports whether a session is found by its name: of two with the same name only one is.
func (o *owner[S]) finds(e *Entry[S]) bool {
	n := o.byName[e.name]
	return n != nil && n.entry == e
}

// forget removes the name of a session.
func (o *owner[S]) forget(e *Entry[S]) {
	if o.finds(e) {
		delete(o.byName, e.name)
	}
}

// Registry is an index of a limited number of sessions. All methods are safe for concurrent use.
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

// Reserve takes a place, and a name unless it is "", for a session to be made. The error is ErrName
// if a session of the owner has the name or is being made with it. It is ErrQuota if the owner has
// most sessions (0 means any number), and ErrFull if all places are taken.
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

// Enter adds a session at its reserved place and name.
func (r *Registry[S]) Enter(e *Entry[S]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.insertLocked(e)
	r.mu.owners[e.Owner].enter(e)
}

// Add adds an existing session in spite of limits, and reports whether it did: it ignores an id
// that is taken. If a name is taken, the session that was added first keeps it; the other is found
// only by its id. The session counts as unused from now on, because the clock may have been wrong
// at its last use, or be wrong now.
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

// Rename reserves another name for a session; "" removes its name. The caller calls settle: with
// true the session gets the name, with false it keeps the old one. The error is ErrName if another
// session of the owner has the name or is being made with it. Removing the session releases the
// reserved name.
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

// Remove removes a session, and reports whether it was there.
func (r *Registry[S]) Remove(e *Entry[S]) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.removeLocked(e)
}

// Drop is Remove unless a request uses the session.
func (r *Registry[S]) Drop(e *Entry[S]) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return e.users == 0 && r.removeLocked(e)
}

// Find returns the entry of an id, nil if there is none or it has expired.
func (r *Registry[S]) Find(id string, now time.Time) *Entry[S] {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.mu.byID.Get(&Entry[S]{ID: id})
	if !ok || e.expired(now) {
		return nil
	}
	return e
}

// Named returns the entry of an owner's name, nil if there is none or it has expired. While a
// session with the name is being made or renamed, the entry is nil, and making is closed when that
// has ended. Otherwise making is nil.
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

// Use begins a request on a session, which does not expire until Done. It returns false, and begins
// nothing, if the session was removed or has expired.
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

// Done ends a request begun by Use.
func (r *Registry[S]) Done(e *Entry[S]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.users--
	r.scheduleLocked(e)
}

// Touch sets when a session was used last. The caller is between Use and Done.
func (r *Registry[S]) Touch(e *Entry[S], now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.lastUsed, e.idle = now, now
}

// SetTTL sets the time without use after which a session expires; 0 means never.
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

// Page returns up to limit sessions in the order of their ids, and whether there are more. It
// starts after the given id; "" means at the first session. It skips expired sessions; call Expire
// first, so that there are few of them.
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

// Expire removes up to limit expired sessions, and returns them. If there are fewer than limit, no
// other session has expired.
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

// Places returns the number of sessions, with those being made.
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

// scheduleLocked records when an unused session expires.
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
