// Package disk decides whether sessions may use more disk space. It checks the limits of the
// sessions' owners and the free space. It counts the bytes that a store reports for each session.
// The package itself writes nothing to the disk.
//
// Every method that is called once per chunk of text takes O(1) time under the lock.
package disk

import (
	"fmt"
	"sync"
)

// LimitError means that an owner's sessions have reached their limit of disk space, or that a
// request would exceed the limit.
type LimitError struct {
	Used  int64 // bytes charged to the owner's sessions
	Limit int64
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("disk: the key's sessions use %d bytes of disk, at most %d are allowed",
		e.Used, e.Limit)
}

// Guard counts the disk space of each owner's sessions, and watches the free space of the disk. All
// methods are safe for concurrent use.
type Guard struct {
	alarm *alarm

	mu struct {
		sync.Mutex
		sessions map[string]*account
		owners   map[string]*owner
	}
}

// account is the disk space of one session.
type account struct {
	owner *owner
	bytes int64
	held  int64 // bytes reserved while the session is being created
}

type owner struct {
	bytes int64 // sum of max(bytes, held) over the owner's accounts
	limit int64 // 0 means no limit
}

// New returns a Guard for a folder without sessions.
func New(o Options) *Guard {
	g := &Guard{alarm: &alarm{Options: o}}
	g.mu.sessions, g.mu.owners = map[string]*account{}, map[string]*owner{}
	return g
}

// Limit sets the limit on the disk space of an owner's sessions, in bytes; 0 means no limit. If
// there is no disk, the limit is ignored.
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

// Reserve opens the account of a session to be created, and reserves bytes for this session. It
// returns the same errors as Room.
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

// Made releases the bytes reserved for a session. It must be called after the session was created
// or its creation failed.
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

// Charge sets the disk space that a session uses; 0 means that the session was deleted. It ignores
// a session without an account.
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

// Charged returns the disk space that a session uses.
func (g *Guard) Charged(id string) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if a := g.mu.sessions[id]; a != nil {
		return a.bytes
	}
	return 0
}

// Used returns the disk space that an owner's sessions use.
func (g *Guard) Used(name string) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if o := g.mu.owners[name]; o != nil {
		return o.bytes
	}
	return 0
}

// Room returns an error if an owner's sessions may not use the given number of additional bytes.
// The error is a *LimitError for this owner, or an *AlarmError, which applies to all owners.
func (g *Guard) Room(owner string, bytes int64) error {
	g.mu.Lock()
	err := g.ownerLocked(owner).room(bytes)
	g.mu.Unlock()
	if err != nil {
		return err
	}
	return g.Fits(bytes)
}

// Ample reports whether there is much space for additional bytes of an owner. With these bytes, the
// owner must use at most half of its limit. The folder must use at most half of its budget, and no
// more space than is free now. Optional work, such as a snapshot, calls Ample first.
func (g *Guard) Ample(owner string, bytes int64) bool {
	g.mu.Lock()
	o := g.ownerLocked(owner)
	ample := o.limit == 0 || bytes <= o.limit/2-o.bytes
	g.mu.Unlock()
	return ample && g.alarm.ample(bytes)
}

// Fits returns an *AlarmError if the disk has too little space for the given number of additional
// bytes.
func (g *Guard) Fits(bytes int64) error { return g.alarm.fits(bytes) }

// Alarm returns an *AlarmError while the disk is nearly full, else nil.
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

// takes returns the bytes that count toward the owner's limit.
func (a *account) takes() int64 { return max(a.bytes, a.held) }

func (o *owner) room(bytes int64) error {
	if o.limit > 0 && bytes > o.limit-o.bytes {
		return &LimitError{Used: o.bytes, Limit: o.limit}
	}
	return nil
}
