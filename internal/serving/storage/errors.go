package storage

import (
	"errors"
	"fmt"
)

// Errors of a Store, for errors.Is.
var (
	ErrInvalid  = errors.New("invalid argument")
	ErrNotFound = errors.New("not found")
	ErrExists   = errors.New("exists already")
	ErrSequence = errors.New("wrong sequence number") // a SequenceError
	ErrRange    = errors.New("offset out of range")   // a RangeError
	ErrFenced   = errors.New("fenced off")            // a FencedError
	ErrCorrupt  = errors.New("corrupt")               // a CorruptError
	ErrNoSpace  = errors.New("no space left")         // nothing was written
	ErrInUse    = errors.New("in use by another process")
	ErrReadOnly = errors.New("open for reading only")
	ErrClosed   = errors.New("closed")

	// ErrUnavailable says that the store cannot be reached now. Nothing was written, and nothing
	// that was written before is lost: the same call may succeed later.
	ErrUnavailable = errors.New("unavailable for now")
	// ErrUnknown says that nobody knows whether a write was made: the connection was lost while the
	// store was at work on it. Either all of the write was made or nothing. The caller has to
	// forget what it took the session to be, claim the session anew, which refuses the write if it
	// is still on its way, and read what there is.
	ErrUnknown = errors.New("outcome unknown")
)

// SequenceError says that an append did not go to the end of the log. Nothing was changed.
type SequenceError struct {
	Session string
	Have    int64 // where the log ends
	Want    int64 // where the call took it to end
}

func (e *SequenceError) Error() string {
	return fmt.Sprintf("storage: session %s: append at offset %d, expected %d, the end of the log",
		e.Session, e.Want, e.Have)
}

func (e *SequenceError) Is(target error) bool { return target == ErrSequence }

// RangeError says that an offset is not where the session has something.
type RangeError struct {
	Session    string
	Offset     int64
	Start, End int64 // what would have been accepted
}

func (e *RangeError) Error() string {
	return fmt.Sprintf("storage: session %s: offset %d, expected %d to %d", e.Session, e.Offset,
		e.Start, e.End)
}

func (e *RangeError) Is(target error) bool { return target == ErrRange }

// FencedError says that a write was refused because the session has been claimed since. Nothing was
// changed.
type FencedError struct {
	Session string
	Have    uint64 // the epoch in force
	Want    uint64 // the epoch of the call
}

func (e *FencedError) Error() string {
	return fmt.Sprintf("storage: session %s: write under epoch %d is fenced off by epoch %d",
		e.Session, e.Want, e.Have)
}

func (e *FencedError) Is(target error) bool { return target == ErrFenced }

// CorruptError locates damage.
type CorruptError struct {
	File    string // path within the folder
	Byte    int64  // position in the file; -1: not known
	Session string // "": not known, or none
	Offset  int64  // of the record or snapshot; -1: not known, or none
	What    string // what was found, and what was expected
	Stray   bool   // no damage: a leftover, or nothing of the store's; What tells which
}

func (e *CorruptError) Error() string {
	s := "storage: " + e.File
	if e.Byte >= 0 {
		s += fmt.Sprintf(", byte %d", e.Byte)
	}
	if e.Session != "" {
		s += ", session " + e.Session
	}
	if e.Offset >= 0 {
		s += fmt.Sprintf(", offset %d", e.Offset)
	}
	return s + ": " + e.What
}

func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

// NotFound is the error of a call for a session that the store does not have.
func NotFound(id string) error { return fmt.Errorf("storage: session %.80q: %w", id, ErrNotFound) }

// SnapshotNotFound is the error of a call for a snapshot that the session does not have.
func SnapshotNotFound(id string, at int64) error {
	return fmt.Errorf("storage: session %.80q: snapshot at offset %d: %w", id, at, ErrNotFound)
}

// SnapshotExists is the error of a snapshot at an offset that has one.
func SnapshotExists(id string, at int64) error {
	return fmt.Errorf("storage: session %.80q: snapshot at offset %d: %w", id, at, ErrExists)
}

// WithinRecord is the error of a fork at an offset that lies within a record.
func WithinRecord(id string, at int64) error {
	return Invalid("session %s: offset %d, expected one at which a record begins", id, at)
}

// Invalid is an ErrInvalid that says what was found, and what was expected.
func Invalid(format string, args ...any) error {
	return fmt.Errorf("storage: %w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}
