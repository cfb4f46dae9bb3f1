// Package disk decides whether sessions may use more of the disk: by the limits of their owners,
// and by the free space. It counts what a store charges each session, and writes nothing.
//
// Every call that a chunk makes costs O(1) under the lock.
package disk

import (
	"fmt"
	"sync"
)

// LimitError says that an owner's sessions have reached their limit of disk space, or that a
// request would exceed it.
type LimitError struct {
	Used  int64 // bytes charged to the owner's sessions
	Limit int64 // limit on these bytes
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("disk: the key's sessions use %d bytes of disk, at most %d are allowed",
		e.Used, e.Limit)
}

// Guard adds up the charges of each owner's sessions, and watches the free space of the disk. All
// methods are safe for concurrent use.
type Guard struct {
	alarm *alarm

	mu struct {
		sync.Mutex
		sessions map[string]*account
		owners   map[string]*owner
	}
}

// account is the charge of one session.
type account struct {
	owner *owner
	bytes int64 // charged
	held  int64 // least charge expected for a session that is being made
}

type owner struct {
	bytes int64 // bytes of all accounts, charged or held
	limit int64 // 0 if there is no limit
}

// New returns a Guard of a folder without sessions.
func New(o Options) *Guard {
	g := &Guard{alarm: &alarm{Options: o}}
	g.mu.sessions, g.mu.owners = map[string]*account{}, map[string]*owner{}
	return g
}

// Limit sets the limit on the sessions of an owner, in bytes; 0 means no limit. Without a disk
// there is no limit.
func (g *Guard) Limit(owner string, bytes int64) {
	if g.alarm.Space == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ownerLocked(owner).limit = bytes
}

// Open opens the account of an existing session.
func (g *Guard) Open(id, owner string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.openLocked(id, owner)
}

// Reserve opens the account of a session to be made, and holds bytes for it. Its errors are those
// of Room.
func (g *Guard) Reserve(id, owner string, bytes int64) error {
	if err := g.hold(id, owner, bytes); err != nil {
		return err
	}
	err := g.Fits(bytes)
	if err != nil {
		g.Made(id)
	}
	return err
}

func (g *Guard) hold(id, owner string, bytes int64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.ownerLocked(owner).room(bytes); err != nil {
		return err
	}
	a := g.openLocked(id, owner)
	a.held = bytes
	a.owner.bytes += bytes
	return nil
}

// Made ends the making of a session, successful or not: from now on no bytes are held for it.
func (g *Guard) Made(id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if a := g.mu.sessions[id]; a != nil {
		a.owner.bytes -= a.takes() - a.bytes
		a.held = 0
		if a.bytes == 0 {
			delete(g.mu.sessions, id)
		}
	}
}

// Charge records the charge of a session; 0 means that the session was deleted. It ignores a
// session without an account.
func (g *Guard) Charge(id string, bytes int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	a := g.mu.sessions[id]
	if a == nil {
		return
	}
	before := a.takes()
	a.bytes = bytes
	a.owner.bytes += a.takes() - before
	if bytes == 0 && a.held == 0 {
		delete(g.mu.sessions, id)
	}
}

// Charged returns the charge of a session.
func (g *Guard) Charged(id string) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if a := g.mu.sessions[id]; a != nil {
		return a.bytes
	}
	return 0
}

// Used returns the charges of all sessions of an owner.
func (g *Guard) Used(name string) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if o := g.mu.owners[name]; o != nil {
		return o.bytes
	}
	return 0
}

// Room returns why the sessions of an owner may not use this many more bytes: a *LimitError or, for
// all owners, an *AlarmError. It returns nil if they may.
func (g *Guard) Room(owner string, bytes int64) error {
	g.mu.Lock()
	err := g.ownerLocked(owner).room(bytes)
	g.mu.Unlock()
	if err != nil {
		return err
	}
	return g.Fits(bytes)
}

// Ample reports whether much space stays free after an owner uses this many more bytes. The owner
// then uses at most half of its limit. The folder uses at most half of its budget, and at most as
// much as is free. Work that is not necessary asks for this.
func (g *Guard) Ample(owner string, bytes int64) bool {
	g.mu.Lock()
	o := g.ownerLocked(owner)
	ample := o.limit == 0 || bytes <= o.limit/2-o.bytes
	g.mu.Unlock()
	return ample && g.alarm.ample(bytes)
}

// Fits returns an *AlarmError if the disk has no room for this many more bytes of any owner.
func (g *Guard) Fits(bytes int64) error { return g.alarm.fits(bytes) }

// Alarm returns an *AlarmError if nothing may grow, or nil.
func (g *Guard) Alarm() error { return g.alarm.fits(0) }

func (g *Guard) ownerLocked(name string) *owner {
	o := g.mu.owners[name]
	if o == nil {
		o = &owner{}
		g.mu.owners[name] = o
	}
	return o
}

func (g *Guard) openLocked(id, owner string) *account {
	a := &account{owner: g.ownerLocked(owner)}
	g.mu.sessions[id] = a
	return a
}

// takes returns what counts for the owner's limit.
func (a *account) takes() int64 { return max(a.bytes, a.held) }

// room returns an error if bytes would exceed the limit.
func (o *owner) room(bytes int64) error {
	if o.limit > 0 && bytes > o.limit-o.bytes {
		return &LimitError{Used: o.bytes, Limit: o.limit}
	}
	return nil
}
