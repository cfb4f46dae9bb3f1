package problem

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/intake"
	"github.com/lmserve/lmserve/internal/serving/keys"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/limits"
)

// Of returns the problem that tells the client about an error of a handler or middleware. An
// unknown error becomes an internal error.
func Of(err error) *Problem { return first(rules, err) }

// OfBody returns the problem for an error that occurred while a request body was read.
func OfBody(err error) *Problem { return first(bodyRules, err) }

// rule returns the problem for one kind of error, and nil for all other errors.
type rule func(err error) *Problem

// rules handles every error; the first matching rule decides. The rule of a wrapping error
// therefore precedes the rule of the wrapped error.
var rules = slices.Concat([]rule{
	as(func(e *Problem) *Problem { return e }),
	as(func(e *session.BodyError) *Problem { return OfBody(e.Err).At(e.Offset) }),
	as(ofUnusable),
	is(session.ErrImport, ofImport),
	as(func(e *session.OffsetError) *Problem {
		return Field(api.ProblemOffsetConflict, "offset", strconv.FormatInt(e.Want, 10),
			strconv.FormatInt(e.Have, 10)).At(e.Have)
	}),
	as(func(e *session.LimitError) *Problem {
		return New(api.ProblemSessionFull,
			fmt.Sprintf("A session has at most %d bytes of text. Create another session for more "+
				"text.", e.Max)).At(e.Offset)
	}),
	as(func(e *session.TooLongError) *Problem {
		return New(api.ProblemBodyTooLarge,
			fmt.Sprintf("A text scored with learn=false has at most %d bytes.", e.Max))
	}),
	as(func(e *session.TrimmedError) *Problem {
		return Field(api.ProblemHistoryTrimmed, e.Field, e.Found, e.Want)
	}),
	as(func(e *session.FieldError) *Problem {
		return Field(api.ProblemInvalidField, e.Field, e.Found, e.Want)
	}),
	as(func(e *session.QuotaError) *Problem {
		return New(api.ProblemKeySessionLimit, fmt.Sprintf("The key has %d live sessions, its "+
			"maximum. Deleting a session makes room.", e.Max))
	}),
	as(ofDiskLimit),
	as(func(*session.DiskAlarmError) *Problem {
		return New(api.ProblemNoSpace,
			"Requests that need disk space are refused until space is free. Deleting sessions "+
				"frees space.")
	}),
	plain(session.ErrNotFound, api.ProblemSessionNotFound, ""),
	is(session.ErrFull, func(err error) *Problem {
		return New(api.ProblemSessionLimit, strings.TrimPrefix(err.Error(), "session: "))
	}),
	soon(as(ofRecovery)),
	plain(session.ErrOverloaded, api.ProblemOverloaded,
		"The queue for workers is full."),
	plain(session.ErrDraining, api.ProblemDraining, ""),
	plain(session.ErrAdminOnly, api.ProblemAdminOnly, ""),
	plain(session.ErrBackupBusy, api.ProblemBackupBusy,
		"Repeat the request after the other backup has ended."),
	plain(session.ErrBackupGone, api.ProblemBackupGone,
		"Begin a new backup, without If-Match and Range."),
	plain(session.ErrNoBackup, api.ProblemNoBackup,
		"Only a server whose sessions are in a data folder makes backups."),
	soon(plain(session.ErrElsewhere, api.ProblemOverloaded,
		"Another server holds the session or is taking it over. Repeat the request.")),
	// The client gets the problem of an overload, because a retry may succeed.
	is(session.ErrUnavailable, logged(api.ProblemOverloaded)),
	is(session.ErrNoSpace, logged(api.ProblemNoSpace)),
	soon(plain(session.ErrBusy, api.ProblemSessionBusy, "")),
	soon(plain(session.ErrQueueFull, api.ProblemSessionQueueFull, "")),
	as(func(e *intake.Error) *Problem {
		return New(api.ProblemMalformedBody, Clipped(e.Error(), limits.DetailCharsMax))
	}),
	as(ofDifference),
	as(func(e *session.ShadowError) *Problem {
		return New(api.ProblemSessionShadow, fmt.Sprintf("The session is the shadow of session "+
			"%s, and gets its text from there.", e.Of))
	}),
	as(func(e *session.NameTakenError) *Problem {
		return Field(api.ProblemNameTaken, "name", Quoted(e.Name), "an unused name")
	}),
	ofModel,
}, keyRules, []rule{logged(api.ProblemInternal)})

var bodyRules = slices.Concat(keyRules, []rule{
	as(func(e *Problem) *Problem { return e }),
	as(func(e *http.MaxBytesError) *Problem {
		return New(api.ProblemBodyTooLarge, fmt.Sprintf("The body has more than %d bytes.",
			e.Limit))
	}),
	plain(session.ErrDraining, api.ProblemDraining, ""),
	plain(os.ErrDeadlineExceeded, api.ProblemBodyTimeout, ""),
	plain(io.ErrUnexpectedEOF, api.ProblemBodyIncomplete,
		"The body ended before its declared length."),
	func(err error) *Problem { return New(api.ProblemBodyIncomplete, err.Error()) },
})

// keyRules handles errors of API keys. No problem contains the key of the request, because keys are
// secret.
var keyRules = []rule{
	is(keys.ErrMalformed, func(error) *Problem {
		return Field(api.ProblemUnauthorized, "Authorization", "a malformed header",
			"one header 'Authorization: Bearer KEY', with a key from 'lmserve keys add'")
	}),
	plain(keys.ErrUnknown, api.ProblemUnauthorized, "This server does not know the key."),
	plain(keys.ErrRevoked, api.ProblemUnauthorized, "The key was revoked."),
	plain(keys.ErrExpired, api.ProblemUnauthorized, "The key has expired."),
}

func first(rules []rule, err error) *Problem {
	for _, of := range rules {
		if p := of(err); p != nil {
			return p
		}
	}
	return nil
}

func as[E error](of func(E) *Problem) rule {
	return func(err error) *Problem {
		var e E
		if !errors.As(err, &e) {
			return nil
		}
		return of(e)
	}
}

// is returns a rule for errors that wrap target. Its parameter `of` gets the whole error, not only
// target.
func is(target error, of rule) rule {
	return func(err error) *Problem {
		if !errors.Is(err, target) {
			return nil
		}
		return of(err)
	}
}

func plain(target error, kind api.ProblemType, detail string) rule {
	return is(target, func(error) *Problem { return New(kind, detail) })
}

// soon adds a short Retry-After to the problem of a rule.
func soon(of rule) rule {
	return func(err error) *Problem {
		p := of(err)
		if p != nil {
			p.RetryAfter = limits.RetryAfterBusy
		}
		return p
	}
}

// logged returns a rule that hides the error's details from the client and gives them to the log.
func logged(kind api.ProblemType) rule {
	return func(err error) *Problem {
		p := New(kind, "The server's log has the details under this request_id.")
		p.Cause = err
		return p
	}
}

func ofDiskLimit(e *session.DiskLimitError) *Problem {
	p := New(api.ProblemKeyDiskLimit,
		fmt.Sprintf("The key's sessions use %d of at most %d bytes of disk, and the request "+
			"needs more than the rest. Deleting sessions frees space.", e.Used, e.Limit))
	p.UsedBytes, p.LimitBytes = &e.Used, &e.Limit
	return p
}

// ofRecovery says how much of a session's state has been recovered. Recovery advances only during
// requests, so the client should repeat the request.
func ofRecovery(e *session.RecoveringError) *Problem {
	return New(api.ProblemOverloaded,
		fmt.Sprintf("The server is recomputing the session's state from its text: %d of %d bytes "+
			"are done. Repeat the request to continue from there, or set a longer "+
			"wait.", e.Done, e.Of))
}

// ofModel names the model that could not be loaded; it returns nil for other errors. The cause of
// the failure goes only to the log.
func ofModel(err error) *Problem {
	var failed *session.ModelLoadError
	if !errors.As(err, &failed) {
		return nil
	}
	p := logged(api.ProblemModelUnavailable)(err)
	detail := "Model " + failed.ID + " cannot be loaded. " + *p.Detail
	p.Detail = &detail
	return p
}

func ofDifference(e *session.DifferError) *Problem {
	first := e.Fields[0]
	p := Field(api.ProblemSessionDiffers, first.Field, first.Found, first.Want)
	for _, f := range e.Fields {
		p.Differences = append(p.Differences,
			api.Difference{Field: f.Field, Found: f.Found, Expected: f.Want})
	}
	return p
}

func ofUnusable(e *session.UnusableError) *Problem {
	p := New(api.ProblemSessionUnusable, Clipped(e.Err.Error(), limits.DetailCharsMax))
	found := e.Damage()
	if found == nil {
		return p
	}
	p.Cause = e
	p.Damage = &api.Damage{File: found.File}
	if found.Byte >= 0 {
		p.Damage.Byte = &found.Byte
	}
	if found.Offset >= 0 {
		p.Damage.Offset = &found.Offset
	}
	return p
}

func ofImport(err error) *Problem {
	if other, ok := errors.AsType[*session.ModelError](err); ok {
		return Field(api.ProblemImportModel, "model", Shortened(other.Have), other.Want)
	}
	detail := strings.TrimPrefix(err.Error(), session.ErrImport.Error()+": ")
	return New(api.ProblemImportDamaged, Clipped(detail, limits.DetailCharsMax))
}

// OfJSON returns the problem for valid JSON that encoding/json could not decode.
func OfJSON(err error) *Problem {
	if mismatch, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && mismatch.Field != "" {
		return Field(api.ProblemInvalidField, mismatch.Field, mismatch.Value,
			"a value that fits "+mismatch.Type.String())
	}
	return New(api.ProblemMalformedBody, err.Error())
}
