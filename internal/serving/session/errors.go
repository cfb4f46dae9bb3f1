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

// Errors of a Manager, for errors.Is.
var (
	// ErrNotFound says that no session has this id, and that no session of the caller has this
	// name. It may have been deleted.
	ErrNotFound = errors.New("session: no such session")
	// ErrBusy says that another request was feeding the session during the whole wait of this
	// request. No text of this request was accepted.
	ErrBusy = errors.New("session: another request is feeding this session")
	// ErrFull says that the limit on live sessions, or on the memory of all of them, is reached.
	ErrFull = errors.New("session: no room for another session")
	// ErrOverloaded says that the queue for workers is full. Nothing of this request was accepted.
	ErrOverloaded = errors.New("session: the queue for workers is full")
	// ErrImport says that a file is not an export that this server can continue. It is damaged,
	// another kind of file or, with a *ModelError, from another model. Nothing was made.
	ErrImport = errors.New("session: the file cannot be imported")
	// ErrNoSpace says that the disk is full. Acknowledged text stays; nothing else of the call is
	// kept.
	ErrNoSpace = errors.New("session: no space left on the disk")
	// ErrUnavailable says that the store cannot be reached now. Only what was acknowledged was
	// accepted, and nothing is lost: the call can be repeated.
	ErrUnavailable = errors.New("session: the store is unavailable")
	// ErrUnknown says that the last text of the call may or may not have been accepted. The caller
	// can read the session's offset to find out.
	ErrUnknown = errors.New("session: the store's answer is missing: the write may have " +
		"succeeded or failed")
	// ErrElsewhere says that another server has the session. It may have claimed the session during
	// the request. Only what was acknowledged was accepted.
	ErrElsewhere = errors.New("session: another server holds this session")
	// ErrAdminOnly is the error for callers without access to all sessions.
	ErrAdminOnly = errors.New("session: the operation needs an admin key")
	// ErrNoBackup says that the store cannot be backed up as one file.
	ErrNoBackup = errors.New("session: the store has no backups")
	// ErrBackupBusy says that another backup is being made or read.
	ErrBackupBusy = errors.New("session: another backup is running")
	// ErrBackupGone says that the backup with this id has ended.
	ErrBackupGone = errors.New("session: the backup has ended")
	// ErrDraining says that the Manager takes no more work. Acknowledged text stays.
	ErrDraining = lifecycle.ErrDraining
)

// UnusableError says that a session exists but cannot be used: it is damaged, or its model is not
// served. It can be deleted.
type UnusableError struct {
	ID  string
	Err error // why the session is unusable
}

func (e *UnusableError) Error() string {
	return fmt.Sprintf("session: session %s cannot be used: %v", e.ID, e.Err)
}

func (e *UnusableError) Unwrap() error { return e.Err }

// Damage returns where the data folder is damaged. It returns nil if the session is unusable for
// another reason, or if the place is not known.
func (e *UnusableError) Damage() *storage.CorruptError {
	var damage *storage.CorruptError
	errors.As(e.Err, &damage)
	return damage
}

// ModelError says that a session belongs to another model.
type ModelError struct {
	Have string // ModelInfo.ID of the session's model
	Want string // ModelInfo.ID of the served models
}

func (e *ModelError) Error() string {
	return fmt.Sprintf("the session's model is %.100s, expected %s", e.Have, e.Want)
}

// ModelLoadError says that the weights of a served model cannot be loaded now. Nothing was changed.
// The next request that needs the weights tries again.
type ModelLoadError struct {
	ID  string // ModelInfo.ID
	Err error  // why the weights cannot be loaded
}

func (e *ModelLoadError) Error() string {
	return fmt.Sprintf("session: model %s cannot be loaded: %v", e.ID, e.Err)
}

func (e *ModelLoadError) Unwrap() error { return e.Err }

// OffsetError says that a Score call expected another offset than the session's. Nothing was
// accepted.
type OffsetError struct {
	Have int64 // the session's offset, where the next byte must start
	Want int64 // the offset the caller expected
}

func (e *OffsetError) Error() string {
	return fmt.Sprintf("session: the request expects offset %d, but the session is at offset "+
		"%d", e.Want, e.Have)
}

// FieldError says that one field of a request has an invalid value. Nothing was changed.
type FieldError struct {
	Field string // path in the request as JSON has it, e.g. "settings.gammas"
	Found string // e.g. "3 values"
	Want  string // e.g. "2 values, one for each bank of the model"
}

func (e *FieldError) Error() string {
	return fmt.Sprintf("session: %s: found %s, expected %s", e.Field, e.Found, e.Want)
}

// DifferError says that the session with a name differs from the request. Each field has the
// session's value (Found) and the requested one (Want). Nothing was changed.
type DifferError struct {
	ID     string
	Fields []FieldError // one or more
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

// NameTakenError says that another session of the owner has the name. Nothing was made or changed.
type NameTakenError struct{ Name string }

func (e *NameTakenError) Error() string {
	return fmt.Sprintf("session: another session has the name %q", e.Name)
}

// TrimmedError is the FieldError of a fork at an offset that was trimmed from its session's log.
// Nothing was changed.
type TrimmedError struct{ FieldError }

func (e *TrimmedError) Unwrap() error { return &e.FieldError }

// LimitError says that a session has, or would get, more text than the limit allows. What was
// reported before stays.
type LimitError struct {
	Offset int64 // the session's offset
	Max    int64 // bytes of text a session can have
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("session: no room for the text at offset %d: a session has at most %d "+
		"bytes", e.Offset, e.Max)
}

// TooLongError says that a text is longer than LearnFalse allows. The session is unchanged.
type TooLongError struct {
	Max int64 // bytes
}

func (e *TooLongError) Error() string {
	return fmt.Sprintf("session: a text that is scored without learning may have at most %d "+
		"bytes", e.Max)
}

// Recovery is the progress of recomputing a session's state from its text.
type Recovery struct {
	Done, Of int64 // bytes of text, counted from the snapshot at which the recovery began
}

// RecoveringError says that the recovery of a session's state takes longer than the request waits.
// The progress is kept, and the next request continues it. errors.Is treats it as ErrOverloaded.
type RecoveringError struct{ Recovery }

func (e *RecoveringError) Error() string {
	return fmt.Sprintf(
		"session: the session's state is being recomputed from its text: %d of %d bytes are "+
			"done", e.Done, e.Of)
}

func (e *RecoveringError) Is(target error) bool { return target == ErrOverloaded }

// QuotaError says that a key has reached its limit of live sessions. Nothing was made.
type QuotaError struct {
	Max int // limit on the key's sessions
}

func (e *QuotaError) Error() string {
	return fmt.Sprintf("session: the key has %d live sessions, its maximum", e.Max)
}

// DiskLimitError says that the sessions of a key have reached their limit of disk space, or that
// this request would exceed it. What was reported before stays, and a deletion makes room.
type DiskLimitError = disk.LimitError

// DiskAlarmError says that the disk is nearly full, for every caller. What was reported before
// stays. Requests that need no disk space still work.
type DiskAlarmError = disk.AlarmError

// BodyError says that the reader of a Score call's text, or of an Import's file, returned an error.
// What was reported before stays in the session. Bytes that were read but not reported are not in
// it.
type BodyError struct {
	Offset int64 // the session's offset, where the client can resume; -1 if the body is a file
	Err    error // the reader's error
}

func (e *BodyError) Error() string {
	if e.Offset < 0 {
		return fmt.Sprintf("session: reading the file failed: %v", e.Err)
	}
	return fmt.Sprintf("session: reading the text failed at offset %d: %v", e.Offset, e.Err)
}

func (e *BodyError) Unwrap() error { return e.Err }

// storeError converts an error of the store to the error of a request. what is the failed
// operation.
func storeError(what string, err error) error {
	var damage *storage.CorruptError
	switch {
	case errors.Is(err, storage.ErrClosed): // a drain did not wait for the request
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

// SpoolError converts an error of a temporary file to ErrNoSpace, or to ErrUnavailable if file
// descriptors have run out. It returns other errors unchanged.
func SpoolError(err error) error {
	switch {
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	case errors.Is(err, spool.ErrNoSpace):
		return fmt.Errorf("%w: %w", ErrNoSpace, err)
	}
	return err
}

// ShadowError says that a session is a shadow, which takes no text from requests. Nothing was
// accepted.
type ShadowError struct {
	ID string
	Of string // the session that the shadow follows
}

func (e *ShadowError) Error() string {
	return fmt.Sprintf(
		"session: session %s is the shadow of session %s and accepts text only from that session",
		e.ID, e.Of)
}
