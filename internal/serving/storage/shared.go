package storage

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Shared is a Store that several servers use at once. Each server has a lease, whose end the store
// records. A session belongs to the server that claimed it last, while that server's lease lasts.
// Claim then refuses other servers with an OwnedError. A server can find and list sessions without
// a claim. The store itself keeps names unique, limits the sessions of owners, and finds expired
// sessions.
type Shared interface {
	Store
	// Locate finds a session by its id, or a session of the owner by its name. It does not find
	// sessions that are being made or have expired.
	Locate(ctx context.Context, owner, text string) (Place, error)
	// ListOf is like List, but returns only the sessions of the owner, or of all owners if all is
	// true. It omits sessions that are being made or have expired.
	ListOf(ctx context.Context, owner string, all bool, after string, limit int) ([]Session, error)
	// Within returns the store with a limit on the number of each owner's sessions, parameter most.
	// 0 means no limit. Create and Fork return ErrQuota if the owner has reached the limit.
	Within(most int) Store
	// Release ends this server's claim on a session, so that other servers may claim it. Parameter
	// unused is the time since the session's last use, which counts for the session's expiry. If
	// the session has another epoch, Release does nothing. The context also ends a Release that has
	// begun, because a session that was not released becomes free when the server's lease lapses.
	Release(ctx context.Context, id string, epoch uint64, unused time.Duration) error
	// Expire deletes up to limit sessions that have expired or were never completed. It keeps the
	// sessions of a server whose lease has not lapsed. It returns the number of deleted sessions.
	Expire(ctx context.Context, limit int) (deleted int, err error)
}

// Terms is the part of a head that a shared store needs.
type Terms struct {
	Owner, Name string // Name is "" for a session without a name
	Complete    bool   // false while the session is being made
	// time without use after which the session expires; 0 means never
	TTL             time.Duration
	Model, Numerics string // the hash of the model, and the name of the arithmetic
}

// Place says which server has a session of a shared store.
type Place struct {
	ID, Owner       string
	Node            string // id of the server that has the session; "" if none has it
	Model, Numerics string // see Terms
}

// Errors of a shared store.
var (
	ErrTaken = errors.New("another session of the owner has this name")
	ErrQuota = errors.New("the owner's session limit is reached")
	// errors.Is(err, ErrOwned) is true for an *OwnedError
	ErrOwned = errors.New("another server holds the session")
)

// OwnedError says that another server has the session, and its lease has not lapsed.
type OwnedError struct{ Session, Node string }

func (e *OwnedError) Error() string {
	return fmt.Sprintf("storage: session %s: server %s holds the session under a valid lease",
		e.Session, e.Node)
}

func (e *OwnedError) Is(target error) bool { return target == ErrOwned }
