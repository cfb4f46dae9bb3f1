package session

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/lmserve/lmserve/internal/serving/session/disk"
	"github.com/lmserve/lmserve/internal/serving/session/lifecycle"
	"github.com/lmserve/lmserve/internal/serving/spool"
	"github.com/lmserve/lmserve/internal/serving/storage"
)

// These are errors of a Manager, for use with errors.Is.
var (
	// ErrNotFound means that the caller has no session with this id or name. The session may have
	// been deleted.
	ErrNotFound = errors.New("session: no such session")
	// ErrBusy means that another request fed the session for as long as this request could wait. No
	// text of this request was accepted.
	ErrBusy = errors.New("session: another request is feeding this session")
	// ErrFull means that the limit on the number of sessions, or on the memory of all sessions, is
	// reached.
	ErrFull = errors.New("session: no room for another session")
	// ErrOverloaded means that the queue for workers is full. No text of this request was accepted.
	ErrOverloaded = errors.New("session: the queue for workers is full")
	// ErrImport means that a file cannot be imported. The file is damaged or of another kind. With
	// a *ModelError, this server does not have the model of the file. No session was created.
	ErrImport = errors.New("session: the file cannot be imported")
	// ErrNoSpace means that the disk is full. Acknowledged text is kept; the rest of the request's
	// text is not.
	ErrNoSpace = errors.New("session: no space left on the disk")
	// ErrUnavailable means that the store cannot be reached now, or that another server is still
	// making the session. Acknowledged text is kept; no other text was accepted. The request can be
	// repeated.
	ErrUnavailable = errors.New("session: the store is unavailable")
	// ErrUnknown means that the last text of the call may or may not have been accepted. The caller
	// can read the session's offset to find out.
	ErrUnknown = errors.New("session: the store's answer is missing: the write may have " +
		"succeeded or failed")
	// ErrElsewhere means that another server has claimed the session, perhaps during the request.
	// Only the acknowledged text was accepted.
	ErrElsewhere = errors.New("session: another server holds this session")
	// ErrAdminOnly means that the operation accesses the sessions of all owners, and that the
	// caller has no admin key.
	ErrAdminOnly = errors.New("session: the operation needs an admin key")
	// ErrNoBackup means that the store cannot be backed up as one file.
	ErrNoBackup = errors.New("session: the store has no backups")
	// ErrBackupBusy means that another backup is being made or downloaded.
	ErrBackupBusy = errors.New("session: another backup is running")
	// ErrBackupGone means that the backup with this id has ended.
	ErrBackupGone = errors.New("session: the backup has ended")
	// ErrDraining means that the Manager shuts down and accepts no more work. Acknowledged text is
	// kept.
	ErrDraining = lifecycle.ErrDraining
)

// UnusableError means that a session exists but cannot be used: it is damaged, or its model is not
// served. The session can still be deleted.
type UnusableError struct {
	ID  string
	Err error
}

func (e *UnusableError) Error() string {
	return fmt.Sprintf("session: session %s cannot be used: %v", e.ID, e.Err)
}

func (e *UnusableError) Unwrap() error { return e.Err }

// Damage returns the damaged place in the data folder. It returns nil if the session is unusable
// for another reason, or if the place is unknown.
func (e *UnusableError) Damage() *storage.CorruptError {
	var damage *storage.CorruptError
	errors.As(e.Err, &damage)
	return damage
}

// ModelError means that a session belongs to a model that is not served.
type ModelError struct {
	Have string // ModelInfo.ID of the session's model
	Want string // ModelInfo.ID of each served model
}

func (e *ModelError) Error() string {
	return fmt.Sprintf("the session's model is %.100s, expected %s", e.Have, e.Want)
}

// ModelLoadError means that the weights of a served model cannot be loaded now. Nothing was
// changed. The next request that needs the weights tries again.
type ModelLoadError struct {
	ID  string
	Err error
}

func (e *ModelLoadError) Error() string {
	return fmt.Sprintf("session: model %s cannot be loaded: %v", e.ID, e.Err)
}

func (e *ModelLoadError) Unwrap() error { return e.Err }

// OffsetError means that the offset in the request is not the session's offset. No text was
// accepted.
type OffsetError struct {
	Have int64
	Want int64
}

func (e *OffsetError) Error() string {
	return fmt.Sprintf("session: the request expects offset %d, but the session is at offset "+
		"%d", e.Want, e.Have)
}

// FieldError means that one field of a request has an invalid value. Nothing was changed.
type FieldError struct {
	Field string // path in the JSON of the request, e.g. "settings.gammas"
	Found string // e.g. "3 values"
	Want  string // e.g. "2 values, one for each bank of the model"
}

func (e *FieldError) Error() string {
	return fmt.Sprintf("session: %s: found %s, expected %s", e.Field, e.Found, e.Want)
}

// DifferError means that a session with the requested name exists, but with different values. Each
// field contains the session's value (Found) and the requested value (Want). Nothing was changed.
type DifferError struct {
	ID     string
	Fields []FieldError // at least one element
}

func (e *DifferError) Error() string {
	var text strings.Builder
	for i, f := range e.Fields {
		if i > 0 {
			text.WriteString("; ")
		}
		fmt.Fprintf(&text, "%s is %s, expected %s", f.Field, f.Found, f.Want)
	}
	return fmt.Sprintf("session: session %s has this name, but differs: %s", e.ID, text.String())
}

// NameTakenError means that another session of the owner already has this name. Nothing was created
// or changed.
type NameTakenError struct{ Name string }

func (e *NameTakenError) Error() string {
	return fmt.Sprintf("session: another session has the name %q", e.Name)
}

// TrimmedError means that a fork cannot begin at the given offset: the text there was trimmed from
// the session's log. Nothing was changed.
type TrimmedError struct{ FieldError }

func (e *TrimmedError) Unwrap() error { return &e.FieldError }

// LimitError means that a session has, or would get, more text than allowed. Text that was reported
// before the error is kept.
type LimitError struct {
	Offset int64
	Max    int64 // limit on the bytes of a session's text
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("session: no room for the text at offset %d: a session has at most %d "+
		"bytes", e.Offset, e.Max)
}

// TooLongError means that a text is too long to be scored with LearnFalse. The session is
// unchanged.
type TooLongError struct {
	Max int64 // limit in bytes
}

func (e *TooLongError) Error() string {
	return fmt.Sprintf("session: a text that is scored without learning may have at most %d "+
		"bytes", e.Max)
}

// Recovery is the progress of recomputing a session's state from its text.
type Recovery struct {
	Done, Of int64 // bytes of text, both counted from the snapshot at which the recovery began
}

// RecoveringError means that a session's state could not be recovered within the time that the
// request can wait. The progress is kept, and the next request continues the recovery. errors.Is
// treats this error as ErrOverloaded.
type RecoveringError struct{ Recovery }

func (e *RecoveringError) Error() string {
	return fmt.Sprintf(
		"session: the session's state is being recomputed from its text: %d of %d bytes are "+
			"done", e.Done, e.Of)
}

func (e *RecoveringError) Is(target error) bool { return target == ErrOverloaded }

// QuotaError means that a key has reached its limit on live sessions. No session was created.
type QuotaError struct {
	Max int
}

func (e *QuotaError) Error() string {
	return fmt.Sprintf("session: the key has %d live sessions, its maximum", e.Max)
}

// DiskLimitError means that the sessions of a key have reached their limit of disk space, or that
// this request would exceed the limit. Text that was reported before the error is kept. Deleting
// sessions frees space.
type DiskLimitError = disk.LimitError

// DiskAlarmError means that the disk is nearly full. It affects all callers. Text that was reported
// before the error is kept. Requests that need no disk space still work.
type DiskAlarmError = disk.AlarmError

// BodyError means that the body of a request could not be read: the text of Score or the file of
// Import. Text that was reported before the error is kept. Bytes that were read but not reported
// are not kept.
type BodyError struct {
	Offset int64 // the session's offset, from which the client can resume; -1 for Import
	Err    error
}

func (e *BodyError) Error() string {
	if e.Offset < 0 {
		return fmt.Sprintf("session: reading the file failed: %v", e.Err)
	}
	return fmt.Sprintf("session: reading the text failed at offset %d: %v", e.Offset, e.Err)
}

func (e *BodyError) Unwrap() error { return e.Err }

// storeError converts an error of the store to an error of a request. Parameter what names the
// operation that failed.
func storeError(what string, err error) error {
	var damage *storage.CorruptError
	switch {
	case errors.Is(err, storage.ErrClosed): // the shutdown did not wait for this request
		return fmt.Errorf("%w: %s: %w", ErrDraining, what, err)
	case errors.Is(err, storage.ErrUnavailable):
		return fmt.Errorf("%w: %s: %w", ErrUnavailable, what, err)
	case errors.Is(err, storage.ErrUnknown):
		return fmt.Errorf("%w: %s: %w", ErrUnknown, what, err)
	case errors.Is(err, storage.ErrOwned), errors.Is(err, storage.ErrFenced):
		return fmt.Errorf("%w: %s: %w", ErrElsewhere, what, err)
	case errors.Is(err, storage.ErrNoSpace):
		return fmt.Errorf("%w: %s: %w", ErrNoSpace, what, err)
	case errors.Is(err, storage.ErrNotFound):
		return ErrNotFound
	case errors.Is(err, ErrFull):
		return err
	case errors.As(err, &damage):
		return &UnusableError{ID: damage.Session, Err: fmt.Errorf("%s: %w", what, err)}
	}
	return fmt.Errorf("session: %s: %w", what, err)
}

// SpoolError converts an error of a temporary file to ErrNoSpace if the disk is full, or to
// ErrUnavailable if no file descriptor is free. It returns other errors unchanged.
func SpoolError(err error) error {
	switch {
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	case errors.Is(err, spool.ErrNoSpace):
		return fmt.Errorf("%w: %w", ErrNoSpace, err)
	}
	return err
}

// ShadowError means that a session is a shadow, which accepts no text from requests.
type ShadowError struct {
	ID string
	Of string // id of the session that the shadow follows
}

func (e *ShadowError) Error() string {
	return fmt.Sprintf(
		"session: session %s is the shadow of session %s and accepts text only from that session",
		e.ID, e.Of)
}
