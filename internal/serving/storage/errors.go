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
	ErrSequence = errors.New("wrong sequence number")        // errors.Is matches a *SequenceError
	ErrRange    = errors.New("offset out of range")          // errors.Is matches a *RangeError
	ErrFenced   = errors.New("fenced off by another server") // errors.Is matches a *FencedError
	ErrCorrupt  = errors.New("corrupt")                      // errors.Is matches a *CorruptError
	// the call has written nothing
	ErrNoSpace  = errors.New("no space left")
	ErrInUse    = errors.New("in use by another process")
	ErrReadOnly = errors.New("open read-only")
	ErrClosed   = errors.New("closed")

	// ErrUnavailable says that the store cannot be reached now. The call has written nothing, and
	// earlier writes are not lost. The same call may succeed later.
	ErrUnavailable = errors.New("unavailable")
	// ErrUnknown says that it is not known whether a write was made, because the connection was
	// lost during the write. It was made as a whole or not at all. The caller must drop its state
	// of the session and claim the session again. If the write reaches the store after that claim,
	// the store refuses it.
	ErrUnknown = errors.New("outcome unknown")
)

// SequenceError says that an append was refused, because its offset is not the end of the log.
type SequenceError struct {
	Session string
	Have    int64 // the end of the log
	Want    int64 // the end that the call expected
}

func (e *SequenceError) Error() string {
	return fmt.Sprintf("storage: session %s: the append is at offset %d, expected %d, the end of "+
		"the log",
		e.Session, e.Want, e.Have)
}

func (e *SequenceError) Is(target error) bool { return target == ErrSequence }

// RangeError says that an offset is outside of a session's log.
type RangeError struct {
	Session    string
	Offset     int64
	Start, End int64 // offsets that would have been accepted
}

func (e *RangeError) Error() string {
	return fmt.Sprintf("storage: session %s: offset %d, expected %d to %d", e.Session, e.Offset,
		e.Start, e.End)
}

func (e *RangeError) Is(target error) bool { return target == ErrRange }

// FencedError says that a write was refused, because the session has been claimed again since the
// write's epoch.
type FencedError struct {
	Session string
	Have    uint64 // the current epoch
	Want    uint64 // the epoch of the call
}

func (e *FencedError) Error() string {
	return fmt.Sprintf("storage: session %s: a write with epoch %d is refused, because the "+
		"current epoch is %d",
		e.Session, e.Want, e.Have)
}

func (e *FencedError) Is(target error) bool { return target == ErrFenced }

// CorruptError reports damage in a store and where it was found.
type CorruptError struct {
	File    string // path within the folder
	Byte    int64  // position in the file; -1: not known
	Session string // empty if not known, or if the file belongs to no session
	// offset of the record or snapshot; -1 if not known, or if there is no such offset
	Offset int64
	What   string // what was found, and what was expected
	Stray  bool   // the file is not damaged but superfluous: a leftover, or not the store's
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

// NotFound returns the error for a session that the store does not have.
func NotFound(id string) error { return fmt.Errorf("storage: session %.80q: %w", id, ErrNotFound) }

// SnapshotNotFound returns the error for a snapshot that the session does not have.
func SnapshotNotFound(id string, at int64) error {
	return fmt.Errorf("storage: session %.80q: snapshot at offset %d: %w", id, at, ErrNotFound)
}

// SnapshotExists returns the error for a second snapshot at an offset.
func SnapshotExists(id string, at int64) error {
	return fmt.Errorf("storage: session %.80q: snapshot at offset %d: %w", id, at, ErrExists)
}

// WithinRecord returns the error for a fork at an offset within a record.
func WithinRecord(id string, at int64) error {
	return Invalid("session %s: offset %d, expected the beginning of a record", id, at)
}

// Invalid returns an ErrInvalid with what was found and what was expected.
func Invalid(format string, args ...any) error {
	return fmt.Errorf("storage: %w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}
