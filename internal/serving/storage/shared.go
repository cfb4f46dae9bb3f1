package storage

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Shared is a Store that several servers use at once. Each has a lease, whose time the store keeps.
// A session belongs to the server that claimed it last, while that server's lease lasts. Until then
// Claim refuses other servers with an OwnedError. The store itself decides what needs no claim:
// which sessions exist, their names, limits of owners, and expiry.
type Shared interface {
	Store
	// Locate finds a session by its id or, among those of an owner, by its name. It does not find
	// sessions that are being made or have expired.
	Locate(ctx context.Context, owner, text string) (Place, error)
	// ListOf is List for the sessions of an owner, or with all of every owner, that Locate finds.
	ListOf(ctx context.Context, owner string, all bool, after string, limit int) ([]Session, error)
	// Within returns the same store, whose Create and Fork return ErrQuota if the owner already has
	// most sessions; 0: no limit.
	Within(most int) Store
	// Release ends the claim of an epoch on a session that was unused for the given time: the
	// session is then free. Under another epoch it does nothing.
	Release(ctx context.Context, id string, epoch uint64, unused time.Duration) error
	// Expire deletes up to limit sessions that have expired or were not completed, and that no
	// server with a lease has. It returns how many.
	Expire(ctx context.Context, limit int) (deleted int, err error)
}

// Terms is the part of a head that a shared store needs.
type Terms struct {
	Owner, Name     string        // no name: ""
	Complete        bool          // false: the session is being made
	TTL             time.Duration // time without use after which the session expires; 0: never
	Model, Numerics string        // the hash of the model, and the name of the arithmetic
}

// Place is the place of a session in a shared store.
type Place struct {
	ID, Owner       string
	Node            string // the server that has it, see Options of the store; "": none
	Model, Numerics string // see Terms
}

// Errors of a shared store.
var (
	ErrTaken = errors.New("another session of the owner has this name")
	ErrQuota = errors.New("the owner's session limit is reached")
	ErrOwned = errors.New("another server holds the session") // an OwnedError
)

// OwnedError says that a server with a valid lease has the session. Nothing was changed.
type OwnedError struct{ Session, Node string }

func (e *OwnedError) Error() string {
	return fmt.Sprintf("storage: session %s: server %s holds it under a valid lease",
		e.Session, e.Node)
}

func (e *OwnedError) Is(target error) bool { return target == ErrOwned }
