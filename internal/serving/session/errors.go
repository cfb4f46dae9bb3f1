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

// Errors a Manager returns, to be told apart with errors.Is.
var (
	// ErrNotFound says that no session has this id, or of the caller's this name (any more).
	ErrNotFound = errors.New("session: no such session")
	// ErrBusy says that another request is feeding the session, and was for as long as this one
	// could wait; nothing of this one was accepted.
	ErrBusy = errors.New("session: another request is feeding this session")
	// ErrFull says that the limit on live sessions, or on the memory of all of them, is reached.
	ErrFull = errors.New("session: the limit on live sessions is reached")
	// ErrOverloaded says that as many requests wait for a worker as may; nothing of this one was
	// accepted.
	ErrOverloaded = errors.New("session: too many requests wait for a worker")
	// ErrImport says that a file is no export of a session that can go on here: damaged, something
	// else or, with a *ModelError, another model's. Nothing was made.
	ErrImport = errors.New("session: the file cannot be imported")
	// ErrNoSpace says that the disk is full. What was acknowledged before stays, and nothing else
	// of the call is kept.
	ErrNoSpace = errors.New("session: no space left on the disk")
	// ErrUnavailable says that what keeps the sessions cannot be reached now. Nothing of the call
	// was accepted that was not acknowledged before, and nothing is lost: the call can be repeated.
	ErrUnavailable = errors.New("session: the store is not available now")
	// ErrUnknown says that nobody knows whether the last text of the call was accepted. The
	// session's offset, asked for anew, tells.
	ErrUnknown = errors.New("session: it is not known whether the store has accepted this")
	// ErrElsewhere says that another server has the session, which it may have taken while the
	// request was on its way. Nothing of the call was accepted that was not acknowledged before.
	ErrElsewhere = errors.New("session: another server has this session")
	// ErrAdminOnly is the error for callers who may not have the sessions of all.
	ErrAdminOnly = errors.New("session: only an admin may do this")
	// ErrNoBackup is the error of a store that cannot give its content as one file.
	ErrNoBackup = errors.New("session: the store has no backups")
	// ErrBackupBusy is the error while another backup is made or read.
	ErrBackupBusy = errors.New("session: another backup is under way")
	// ErrBackupGone is the error for the id of a backup that has ended.
	ErrBackupGone = errors.New("session: the backup has ended")
	// ErrDraining says that the Manager takes no more work; what was acknowledged before stays.
	ErrDraining = lifecycle.ErrDraining
)

// UnusableError says that a session is there and cannot be used: it is damaged, or of another
// model. It can be deleted.
type UnusableError struct {
	ID  string
	Err error // why
}

func (e *UnusableError) Error() string {
	return fmt.Sprintf("session: session %s cannot be used: %v", e.ID, e.Err)
}

func (e *UnusableError) Unwrap() error { return e.Err }

// Damage is where the data folder is damaged; nil if damage is not why the session cannot be used,
// or if its place is not known.
func (e *UnusableError) Damage() *storage.CorruptError {
	var damage *storage.CorruptError
	errors.As(e.Err, &damage)
	return damage
}

// ModelError says that a session is another model's.
type ModelError struct {
	Have string // ModelInfo.ID of the session's
	Want string // of those that are served
}

func (e *ModelError) Error() string {
	return fmt.Sprintf("its model is %.100s, here is %s", e.Have, e.Want)
}

// ModelLoadError says that the weights of a model that is served cannot be loaded now. Nothing was
// changed, and the next request that needs them tries it again.
type ModelLoadError struct {
	ID  string // ModelInfo.ID
	Err error  // why
}

func (e *ModelLoadError) Error() string {
	return fmt.Sprintf("session: model %s cannot be loaded: %v", e.ID, e.Err)
}

func (e *ModelLoadError) Unwrap() error { return e.Err }

// OffsetError says that a Score call expected another offset than the session has. Nothing was
// accepted.
type OffsetError struct {
	Have int64 // the session's offset: where the next byte must start
	Want int64 // the offset the caller expected
}

func (e *OffsetError) Error() string {
	return fmt.Sprintf("session: offset %d was expected, but the session is at %d", e.Want, e.Have)
}

// FieldError says that one field of a request has a value that cannot be used. Nothing was changed.
type FieldError struct {
	Field string // path in the request as JSON has it, e.g. "settings.gammas"
	Found string // e.g. "3 values"
	Want  string // e.g. "2 values, one for each bank of the model"
}

func (e *FieldError) Error() string {
	return fmt.Sprintf("session: %s: found %s, expected %s", e.Field, e.Found, e.Want)
}

// DifferError says that the session of a name is not the one that was asked for: of each field what
// the session has (Found) and what the request wants. Nothing was changed.
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
	return fmt.Sprintf("session: session %s has the name, but its %s", e.ID, text.String())
}

// NameTakenError says that another session of the owner has a name. Nothing was made or changed.
type NameTakenError struct{ Name string }

func (e *NameTakenError) Error() string {
	return fmt.Sprintf("session: another session has the name %q", e.Name)
}

// TrimmedError is the FieldError of a fork at an offset that its session, of which only the tail is
// kept, has no more. Nothing was changed.
type TrimmedError struct{ FieldError }

func (e *TrimmedError) Unwrap() error { return &e.FieldError }

// LimitError says that a session has, or would get, as much text as a session can have. What was
// reported before stays.
type LimitError struct {
	Offset int64 // of the session
	Max    int64 // bytes of text a session can have
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("session: at offset %d there is no room for this text, a session has at "+
		"most %d bytes", e.Offset, e.Max)
}

// TooLongError says that a text is longer than one that is scored with LearnFalse may be. The
// session is as it was.
type TooLongError struct {
	Max int64 // bytes
}

func (e *TooLongError) Error() string {
	return fmt.Sprintf("session: a text that is not learnt from has at most %d bytes", e.Max)
}

// Recovery is how far a session's state was computed again from its text.
type Recovery struct {
	Done, Of int64 // bytes of text, from the snapshot on that the computing began with
}

// RecoveringError says that a session's state takes longer to be computed again than the request
// waits. What was computed is kept, and the next request goes on from there. It is an
// ErrOverloaded.
type RecoveringError struct{ Recovery }

func (e *RecoveringError) Error() string {
	return fmt.Sprintf(
		"session: the session's state is being computed again from its text, and is "+
			"kept as far as it has come: %d of %d bytes", e.Done, e.Of)
}

func (e *RecoveringError) Is(target error) bool { return target == ErrOverloaded }

// QuotaError says that a key has as many live sessions as it may have. Nothing was made.
type QuotaError struct {
	Max int // sessions of the key
}

func (e *QuotaError) Error() string {
	return fmt.Sprintf("session: the key has %d live sessions, the most it may have", e.Max)
}

// DiskLimitError says that the sessions of a key take as much of the disk as they may, or would
// with what was to be done. What was reported before stays, and a deletion makes room.
type DiskLimitError = disk.LimitError

// DiskAlarmError says that there is not enough room left on the disk, whoever asks. What was
// reported before stays. What takes nothing of the disk goes on.
type DiskAlarmError = disk.AlarmError

// BodyError says that the text of a Score call, or the file of an Import, ended with an error of
// its reader. What was reported before stays in the session; bytes that were read but not reported
// never happened.
type BodyError struct {
	Offset int64 // of the session: where to go on; -1: of a file
	Err    error // of the reader
}

func (e *BodyError) Error() string {
	if e.Offset < 0 {
		return fmt.Sprintf("session: reading the file failed: %v", e.Err)
	}
	return fmt.Sprintf("session: reading the text failed at offset %d: %v", e.Offset, e.Err)
}

func (e *BodyError) Unwrap() error { return e.Err }

// storeError is the error of a request to which the store has failed to do something.
func storeError(what string, err error) error {
	var damage *storage.CorruptError
	switch {
	case errors.Is(err, storage.ErrClosed): // after a drain that did not wait for the request
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

// ShadowError says that a session is a shadow, to which no text can be fed. Nothing was accepted.
type ShadowError struct {
	ID string
	Of string // the session that it follows
}

func (e *ShadowError) Error() string {
	return fmt.Sprintf(
		"session: session %s is the shadow of session %s, which it takes its text from",
		e.ID, e.Of)
}
