package session

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/lmserve/lmserve/internal/session/budget"
	"github.com/lmserve/lmserve/internal/sessionlog"
	"github.com/lmserve/lmserve/internal/spool"
)

// storeError is the error of a request to which the store has failed to do something.
func storeError(what string, err error) error {
	var damage *sessionlog.CorruptError
	switch {
	case errors.Is(err, sessionlog.ErrFailed), errors.Is(err, sessionlog.ErrClosed):
		return fmt.Errorf("%w: %s: %w", ErrStore, what, err)
	case errors.Is(err, sessionlog.ErrUnavailable):
		return fmt.Errorf("%w: %s: %w", ErrUnavailable, what, err)
	case errors.Is(err, sessionlog.ErrUnknown):
		return fmt.Errorf("%w: %s: %w", ErrUnknown, what, err)
	case errors.Is(err, sessionlog.ErrNoSpace):
		return fmt.Errorf("%w: %s: %w", ErrNoSpace, what, err)
	case errors.Is(err, sessionlog.ErrNotFound):
		return ErrNotFound
	case errors.Is(err, ErrFull):
		return err
	case errors.As(err, &damage):
		return &UnusableError{ID: damage.Session, Err: fmt.Errorf("%s: %w", what, err)}
	}
	return fmt.Errorf("session: %s: %w", what, err)
}

// moved says whether an error means that the session may not be what this Manager took it to be:
// another has claimed it or has written to it, or nobody knows whether a write was made.
func moved(err error) bool {
	return errors.Is(err, sessionlog.ErrFenced) || errors.Is(err, sessionlog.ErrSequence) ||
		errors.Is(err, sessionlog.ErrUnknown)
}

// damaged says whether an error of reading a snapshot is the snapshot's own: then it will never be
// read, and the session goes on without it. All others are the store's, or the context's.
func damaged(err error) bool {
	for _, other := range []error{
		sessionlog.ErrFailed, sessionlog.ErrClosed, sessionlog.ErrNotFound, sessionlog.ErrUnavailable,
		sessionlog.ErrUnknown,
	} {
		if errors.Is(err, other) {
			return false
		}
	}
	return true
}

// SpoolError makes an error of a temporary file ErrNoSpace, or ErrUnavailable where only a
// descriptor is missing. Other errors stay as they are.
func SpoolError(err error) error {
	switch {
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	case errors.Is(err, spool.ErrNoSpace):
		return fmt.Errorf("%w: %w", ErrNoSpace, err)
	}
	return err
}

// memoryError is the error of a request that got no memory.
func memoryError(err error) error {
	var full *budget.FullError
	switch {
	case errors.As(err, &full):
		return fmt.Errorf("%w: %w", ErrFull, err)
	case errors.Is(err, budget.ErrClosed):
		return ErrNotFound
	}
	return err
}
