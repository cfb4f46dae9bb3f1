package storage

import (
	"errors"
	"fmt"
)

// These errors of a Store are for use with errors.Is.
var (
	ErrInvalid  = errors.New("invalid argument")
	ErrNotFound = errors.New("not found")
	ErrExists   = errors.New("exists already")
	// also matches a *SequenceError in errors.Is
	ErrSequence = errors.New("wrong sequence number")
	ErrRange    = errors.New("offset out of range") // also matches a *RangeError in errors.Is
	// also matches a *FencedError in errors.Is
	ErrFenced  = errors.New("fenced off by another server")
	ErrCorrupt = errors.New("corrupt") // also matches a *CorruptError in errors.Is
	// ErrNoSpace says that the disk is full. The call has written nothing.
	ErrNoSpace  = errors.New("no space left")
	ErrInUse    = errors.New("in use by another process")
	ErrReadOnly = errors.New("open read-only")
	ErrClosed   = errors.New("closed")

	// ErrUnavailable says that the store cannot be reached now. The call has written nothing, and
	// earlier writes are not lost. The caller may retry later.
	ErrUnavailable = errors.New("unavailable")
	// ErrUnknown says that the outcome of a write is unknown, because the connection was lost
	// during the write. The write was made as a whole or not at all. The caller must drop its state
	// of the session and claim the session again. If the write reaches the store after this new
	// claim, the store refuses the write.
	ErrUnknown = errors.New("outcome unknown")
)

// SequenceError says that an append was refused, because its offset is not the end of the log.
type SequenceError struct {
	Session string
	Have    int64
	Want    int64
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
	Start, End int64 // the range of valid offsets
}

func (e *RangeError) Error() string {
	return fmt.Sprintf("storage: session %s: offset %d, expected %d to %d", e.Session, e.Offset,
		e.Start, e.End)
}

func (e *RangeError) Is(target error) bool { return target == ErrRange }

// FencedError says that a write was refused, because the session has a newer claim than the write's
// epoch.
type FencedError struct {
	Session string
	Have    uint64
	Want    uint64
}

func (e *FencedError) Error() string {
	return fmt.Sprintf("storage: session %s: a write with epoch %d is refused, because the "+
		"current epoch is %d",
		e.Session, e.Want, e.Have)
}

func (e *FencedError) Is(target error) bool { return target == ErrFenced }

// CorruptError reports damage in a store, with its location.
type CorruptError struct {
	File    string // the path within the data folder
	Byte    int64  // the position in the file; -1 if not known
	Session string // the session's id; empty if not known, or if the file belongs to no session
	// Offset is the offset of the record or snapshot in the session's log. It is -1 if there is
	// none, or if the offset is not known.
	Offset int64
	What   string
	// the file is not damaged but superfluous: a leftover, or a file that the store did not write
	Stray bool
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

// NotFound returns the error for a session that is not in the store.
func NotFound(id string) error { return fmt.Errorf("storage: session %.80q: %w", id, ErrNotFound) }

// SnapshotNotFound returns the error for a missing snapshot of a session.
func SnapshotNotFound(id string, at int64) error {
	return fmt.Errorf("storage: session %.80q: snapshot at offset %d: %w", id, at, ErrNotFound)
}

// SnapshotExists returns the error for a second snapshot at the same offset.
func SnapshotExists(id string, at int64) error {
	return fmt.Errorf("storage: session %.80q: snapshot at offset %d: %w", id, at, ErrExists)
}

// WithinRecord returns the error for a fork at an offset within a record.
func WithinRecord(id string, at int64) error {
	return Invalid("session %s: offset %d, expected the beginning of a record", id, at)
}

// Invalid returns an error that wraps ErrInvalid. The format should say what was found and what was
// expected.
func Invalid(format string, args ...any) error {
	return fmt.Errorf("storage: %w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}
