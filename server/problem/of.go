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

// Of turns any error of a handler or middleware into the problem for the client. Unknown errors
// become internal errors.
func Of(err error) *Problem { return first(rules, err) }

// OfBody returns the problem for an error of reading a request body.
func OfBody(err error) *Problem { return first(bodyRules, err) }

// rule returns the problem for one kind of error, and nil for others.
type rule func(err error) *Problem

// rules covers every kind of error. Their order matters: an error may wrap an error of a later
// rule, and the first matching rule decides.
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
	// The problem is the same as after an overload, because a retry may succeed.
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

// bodyRules covers errors of reading a body.
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

// keyRules covers errors of API keys. No problem contains the key that the request sent.
var keyRules = []rule{
	is(keys.ErrMalformed, func(error) *Problem {
		return Field(api.ProblemUnauthorized, "Authorization", "a malformed header",
			"one header 'Authorization: Bearer KEY', with a key from 'lmserve keys add'")
	}),
	plain(keys.ErrUnknown, api.ProblemUnauthorized, "This server does not know the key."),
	plain(keys.ErrRevoked, api.ProblemUnauthorized, "The key was revoked."),
	plain(keys.ErrExpired, api.ProblemUnauthorized, "The key has expired."),
}

// first returns the problem of the first rule that matches the error; nil if none matches.
func first(rules []rule, err error) *Problem {
	for _, of := range rules {
		if p := of(err); p != nil {
			return p
		}
	}
	return nil
}

// as makes the rule for an error type.
func as[E error](of func(E) *Problem) rule {
	return func(err error) *Problem {
		var e E
		if !errors.As(err, &e) {
			return nil
		}
		return of(e)
	}
}

// is makes the rule for errors that wrap the sentinel error target. Parameter of gets the wrapping
// error.
func is(target error, of rule) rule {
	return func(err error) *Problem {
		if !errors.Is(err, target) {
			return nil
		}
		return of(err)
	}
}

// plain makes the rule for a sentinel error with a fixed detail.
func plain(target error, kind api.ProblemType, detail string) rule {
	return is(target, func(error) *Problem { return New(kind, detail) })
}

// soon adds a short Retry-After to a rule's problem.
func soon(of rule) rule {
	return func(err error) *Problem {
		p := of(err)
		if p != nil {
			p.RetryAfter = limits.RetryAfterBusy
		}
		return p
	}
}

// logged makes a rule whose problem hides the error's details from the client. They go to the log.
func logged(kind api.ProblemType) rule {
	return func(err error) *Problem {
		p := New(kind, "The server's log has the details under this request_id.")
		p.Cause = err
		return p
	}
}

// ofDiskLimit says how much disk space the key's sessions use, and their limit.
func ofDiskLimit(e *session.DiskLimitError) *Problem {
	p := New(api.ProblemKeyDiskLimit,
		fmt.Sprintf("The key's sessions use %d of at most %d bytes of disk, and the request "+
			"needs more than the rest. Deleting sessions frees space.", e.Used, e.Limit))
	p.UsedBytes, p.LimitBytes = &e.Used, &e.Limit
	return p
}

// ofRecovery reports how much of a session's state is recovered. Recovery advances only during
// requests, so the client may retry soon.
func ofRecovery(e *session.RecoveringError) *Problem {
	return New(api.ProblemOverloaded,
		fmt.Sprintf("The server is recomputing the session's state from its text: %d of %d bytes "+
			"are done. Repeat the request to continue from there, or set a longer "+
			"wait.", e.Done, e.Of))
}

// ofModel names the model that could not be loaded; it returns nil for other errors. The reason
// goes only to the log.
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

// ofDifference says how the session with the requested name differs from the request.
func ofDifference(e *session.DifferError) *Problem {
	first := e.Fields[0]
	p := Field(api.ProblemSessionDiffers, first.Field, first.Found, first.Want)
	for _, f := range e.Fields {
		p.Differences = append(p.Differences,
			api.Difference{Field: f.Field, Found: f.Found, Expected: f.Want})
	}
	return p
}

// ofUnusable says why a session cannot be used. For a damaged session it also says where the damage
// is, and gives the log the cause.
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

// ofImport says why an exported session was refused.
func ofImport(err error) *Problem {
	if other, ok := errors.AsType[*session.ModelError](err); ok {
		return Field(api.ProblemImportModel, "model", Shortened(other.Have), other.Want)
	}
	detail := strings.TrimPrefix(err.Error(), session.ErrImport.Error()+": ")
	return New(api.ProblemImportDamaged, Clipped(detail, limits.DetailCharsMax))
}

// OfJSON says why encoding/json could not decode valid JSON.
func OfJSON(err error) *Problem {
	if mismatch, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && mismatch.Field != "" {
		return Field(api.ProblemInvalidField, mismatch.Field, mismatch.Value,
			"a value that fits "+mismatch.Type.String())
	}
	return New(api.ProblemMalformedBody, err.Error())
}
