// Package disk decides whether what sessions take on the disk may grow: by the limits of their
// owners, and by what is left of the disk. It counts what a store charges each session, and writes
// nothing.
//
// Everything a chunk asks for costs O(1) under the lock.
package disk

import (
	"fmt"
	"sync"
)

// LimitError says that an owner's sessions take as much of the disk as they may, or would.
type LimitError struct {
	Used  int64 // bytes that the owner's sessions are charged for
	Limit int64 // bytes that they may be charged for
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("disk: the sessions of the key take %d bytes of the disk, it may have %d",
		e.Used, e.Limit)
}

// Guard counts for each owner what its sessions are charged for, and watches what is left of the
// disk. All methods may be called at once.
type Guard struct {
	alarm *alarm

	mu struct {
		sync.Mutex
		sessions map[string]*account
		owners   map[string]*owner
	}
}

// account is what one session takes.
type account struct {
	owner *owner
	bytes int64 // charged
	held  int64 // that the session will be charged for, at least, when it is made
}

type owner struct {
	bytes int64 // of all accounts, or held by them
	limit int64 // 0: none
}

// New makes a Guard of a folder without sessions.
func New(o Options) *Guard {
	g := &Guard{alarm: &alarm{Options: o}}
	g.mu.sessions, g.mu.owners = map[string]*account{}, map[string]*owner{}
	return g
}

// Limit sets how many bytes the sessions of an owner may take. 0: any number, and where there is no
// disk there is no limit.
func (g *Guard) Limit(owner string, bytes int64) {
	if g.alarm.Space == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ownerLocked(owner).limit = bytes
}

// Open opens the account of a session that is there already.
func (g *Guard) Open(id, owner string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.openLocked(id, owner)
}

// Reserve opens the account of a session that is going to be made, and holds as many bytes for it.
// It refuses as Room does.
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

// Made ends the making of a session, well or badly: nothing is held for it any more.
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

// Charge notes what a session is charged for now; 0 means that it is gone. Of a session without an
// account it notes nothing.
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

// Charged is what a session is charged for.
func (g *Guard) Charged(id string) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if a := g.mu.sessions[id]; a != nil {
		return a.bytes
	}
	return 0
}

// Used is what all sessions of an owner take.
func (g *Guard) Used(name string) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if o := g.mu.owners[name]; o != nil {
		return o.bytes
	}
	return 0
}

// Room says why the sessions of an owner may not take as many bytes more: the error is a
// *LimitError or, for everybody, an *AlarmError.
func (g *Guard) Room(owner string, bytes int64) error {
	g.mu.Lock()
	err := g.ownerLocked(owner).room(bytes)
	g.mu.Unlock()
	if err != nil {
		return err
	}
	return g.Fits(bytes)
}

// Ample says whether as many bytes more of an owner's leave half of all to others: what the
// sessions of the owner take is at most half of what they may, and what the folder takes at most
// half of its budget, and no more than is left of the file system. What can be done without asks
// for it.
func (g *Guard) Ample(owner string, bytes int64) bool {
	g.mu.Lock()
	o := g.ownerLocked(owner)
	ample := o.limit == 0 || bytes <= o.limit/2-o.bytes
	g.mu.Unlock()
	return ample && g.alarm.ample(bytes)
}

// Fits says why the disk has no room for as many bytes more, whoever asks: an *AlarmError.
func (g *Guard) Fits(bytes int64) error { return g.alarm.fits(bytes) }

// Alarm says why nothing may grow; nil if it may. The error is an *AlarmError.
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

// takes is what counts for the owner's limit.
func (a *account) takes() int64 { return max(a.bytes, a.held) }

// room refuses bytes that go beyond the limit.
func (o *owner) room(bytes int64) error {
	if o.limit > 0 && bytes > o.limit-o.bytes {
		return &LimitError{Used: o.bytes, Limit: o.limit}
	}
	return nil
}
