package storage

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Shared is a Store that several servers use at once, each with a lease that the store keeps the
// time of. A session belongs to the server that has claimed it last, as long as that server's lease
// lasts: until then Claim refuses others, with an OwnedError. What is decided about sessions
// without a claim (which there are, of what names, how many of an owner, which have expired) the
// store decides.
type Shared interface {
	Store
	// Locate finds a session by its id or, among those of an owner, by its name. Sessions that are
	// being made, or have expired, are not found.
	Locate(ctx context.Context, owner, text string) (Place, error)
	// ListOf is List for those sessions of an owner, or with all of every owner, that Locate finds.
	ListOf(ctx context.Context, owner string, all bool, after string, limit int) ([]Session, error)
	// Within gives the same store, whose Create and Fork refuse (ErrQuota) a session of an owner
	// who has so many already. 0 is no limit.
	Within(most int) Store
	// Release ends the claim of an epoch on a session, which was not used for so long: the session
	// is free. Under another epoch it does nothing.
	Release(ctx context.Context, id string, epoch uint64, unused time.Duration) error
	// Expire deletes up to limit sessions that have expired, or whose making was not completed, and
	// that no server with a lease has. It tells how many.
	Expire(ctx context.Context, limit int) (deleted int, err error)
}

// Terms is what a shared store has to know of a head.
type Terms struct {
	Owner, Name     string        // a name of "" is none
	Complete        bool          // false: the session is being made
	TTL             time.Duration // without use, after which the session expires; 0: never
	Model, Numerics string        // the hash of the model, and the name of the arithmetic
}

// Place is where a session of a shared store is.
type Place struct {
	ID, Owner       string
	Node            string // the server that has it, see Options of the store; "": none
	Model, Numerics string // see Terms
}

// Errors of a shared store.
var (
	ErrTaken = errors.New("another session of the owner has the name")
	ErrQuota = errors.New("the owner has as many sessions as it may have")
	ErrOwned = errors.New("another server has the session") // an OwnedError
)

// OwnedError says that a server whose lease lasts has the session. Nothing was changed.
type OwnedError struct{ Session, Node string }

func (e *OwnedError) Error() string {
	return fmt.Sprintf("storage: session %s: server %s has it, and its lease is not over",
		e.Session, e.Node)
}

func (e *OwnedError) Is(target error) bool { return target == ErrOwned }
