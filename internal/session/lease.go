package session

import (
	"fmt"
	"sync/atomic"
)

// Lease lets this server act for the sessions that it has claimed in a store that others share.
type Lease interface {
	// Err says why this server must not act for them now; nil while it may.
	Err() error
	// Term grows whenever the lease was over: claims of an earlier term may be another's by now.
	Term() uint64
}

// lease is the Lease of a Manager, and whether it gives its sessions up.
type lease struct {
	Lease
	own     bool        // the store is this Manager's alone
	leaving atomic.Bool // the server hands its sessions over: it claims and makes none
}

// ownLease is the Lease on a store that no other server has: it is always in force.
type ownLease struct{}

func (ownLease) Err() error   { return nil }
func (ownLease) Term() uint64 { return 0 }

// err says why the server must not act for any session now.
func (l *lease) err() error {
	if err := l.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return nil
}

// mayClaim says why the server must not take a session that it does not have.
func (l *lease) mayClaim() error {
	if l.leaving.Load() {
		return fmt.Errorf("%w: this one hands its sessions over", ErrElsewhere)
	}
	return l.err()
}
