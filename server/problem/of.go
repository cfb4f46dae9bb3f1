package problem

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/keys"
	"github.com/lmserve/lmserve/internal/session"
	"github.com/lmserve/lmserve/server/limits"
)

// Of turns any error of a handler or middleware into the problem that the client is told. What it
// does not know is an internal error.
func Of(err error) *Problem {
	var (
		ready    *Problem
		body     *session.BodyError
		offset   *session.OffsetError
		limit    *session.LimitError
		trimmed  *session.TrimmedError
		long     *session.TooLongError
		field    *session.FieldError
		quota    *session.QuotaError
		stored   *session.DiskLimitError
		alarm    *session.DiskAlarmError
		again    *session.RecoveringError
		unusable *session.UnusableError
	)
	switch {
	case errors.As(err, &ready):
		return ready
	case errors.As(err, &body):
		return OfBody(body.Err).At(body.Offset)
	case errors.As(err, &unusable):
		return ofUnusable(unusable)
	case errors.Is(err, session.ErrImport):
		return ofImport(err)
	case errors.As(err, &offset):
		return Field(api.ProblemOffsetConflict, "offset", strconv.FormatInt(offset.Want, 10),
			strconv.FormatInt(offset.Have, 10)).At(offset.Have)
	case errors.As(err, &limit):
		return New(api.ProblemSessionFull,
			fmt.Sprintf("A session has at most %d bytes of text.", limit.Max)).At(limit.Offset)
	case errors.As(err, &long):
		return New(api.ProblemBodyTooLarge,
			fmt.Sprintf("A text that nothing is learnt of has at most %d bytes.", long.Max))
	case errors.As(err, &trimmed):
		return Field(api.ProblemHistoryTrimmed, trimmed.Field, trimmed.Found, trimmed.Want)
	case errors.As(err, &field):
		return Field(api.ProblemInvalidField, field.Field, field.Found, field.Want)
	case errors.As(err, &quota):
		return New(api.ProblemKeySessionLimit, fmt.Sprintf("The key has %d live sessions.", quota.Max))
	case errors.As(err, &stored):
		return ofDiskLimit(stored)
	case errors.As(err, &alarm):
		return New(api.ProblemNoSpace, "Nothing that needs more of the disk is done until there is "+
			"room. Deleting sessions makes room.")
	case errors.Is(err, session.ErrNotFound):
		return New(api.ProblemSessionNotFound, "")
	case errors.Is(err, session.ErrFull):
		return New(api.ProblemSessionLimit, strings.TrimPrefix(err.Error(), "session: "))
	case errors.As(err, &again):
		return ofRecovery(again)
	case errors.Is(err, session.ErrOverloaded):
		return New(api.ProblemOverloaded, "As many requests wait for a worker as may.")
	case errors.Is(err, session.ErrDraining):
		return New(api.ProblemDraining, "")
	case errors.Is(err, session.ErrAdminOnly):
		return New(api.ProblemAdminOnly, "")
	case errors.Is(err, session.ErrBackupBusy):
		return New(api.ProblemBackupBusy, "")
	case errors.Is(err, session.ErrBackupGone):
		return New(api.ProblemBackupGone, "")
	case errors.Is(err, session.ErrNoBackup):
		return New(api.ProblemNoBackup, "")
	case errors.Is(err, session.ErrElsewhere):
		p := New(api.ProblemOverloaded, "Another server has the session, or takes it over.")
		p.RetryAfter = limits.RetryAfterBusy
		return p
	case errors.Is(err, session.ErrUnavailable): // as after an overload, the same request may succeed later
		return logged(api.ProblemOverloaded, err)
	case errors.Is(err, session.ErrNoSpace):
		return logged(api.ProblemNoSpace, err)
	}
	for _, of := range []func(error) *Problem{ofOther, ofModel, ofKey} {
		if p := of(err); p != nil {
			return p
		}
	}
	return logged(api.ProblemInternal, err)
}

// logged makes the problem of a cause that concerns only those who run the server.
func logged(kind api.ProblemType, cause error) *Problem {
	p := New(kind, "The server's log has more, under this request_id.")
	p.Cause = cause
	return p
}

// ofDiskLimit says what the sessions of a key take of the disk, and what they may take.
func ofDiskLimit(e *session.DiskLimitError) *Problem {
	p := New(api.ProblemKeyDiskLimit, fmt.Sprintf("The sessions of the key take %d bytes, of at most "+
		"%d, and this needs more than is left. Deleting sessions makes room.", e.Used, e.Limit))
	p.UsedBytes, p.LimitBytes = &e.Used, &e.Limit
	return p
}

// ofRecovery says how far a session's state has come. It comes further with the next request only,
// which can be made soon.
func ofRecovery(e *session.RecoveringError) *Problem {
	p := New(api.ProblemOverloaded, fmt.Sprintf("The session's state is being computed again from "+
		"its text: %d of %d bytes are done, and kept. The same request, made again, goes on from "+
		"there, and waits for longer with a longer wait.", e.Done, e.Of))
	p.RetryAfter = limits.RetryAfterBusy
	return p
}

// ofOther says which other session or request stands in the way; nil if none does.
func ofOther(err error) *Problem {
	var differ *session.DifferError
	var taken *session.NameTakenError
	var shadow *session.ShadowError
	switch {
	case errors.Is(err, session.ErrBusy):
		p := New(api.ProblemSessionBusy, "")
		p.RetryAfter = limits.RetryAfterBusy
		return p
	case errors.As(err, &differ):
		return ofDifference(differ)
	case errors.As(err, &shadow):
		return New(api.ProblemSessionShadow, fmt.Sprintf("It is the shadow of session %s.", shadow.Of))
	case errors.As(err, &taken):
		return Field(api.ProblemNameTaken, "name", Quoted(taken.Name), "a name that is free")
	}
	return nil
}

// ofModel says which model cannot be loaded; nil if err is not of that kind. Why it cannot concerns
// those who run the server.
func ofModel(err error) *Problem {
	var failed *session.ModelLoadError
	if !errors.As(err, &failed) {
		return nil
	}
	p := logged(api.ProblemModelUnavailable, err)
	detail := "Model " + failed.ID + " cannot be loaded. " + *p.Detail
	p.Detail = &detail
	return p
}

// ofDifference says what the session of a name has otherwise than a request asks for.
func ofDifference(e *session.DifferError) *Problem {
	first := e.Fields[0]
	p := Field(api.ProblemSessionDiffers, first.Field, first.Found, first.Want)
	for _, f := range e.Fields {
		p.Differences = append(p.Differences,
			api.Difference{Field: f.Field, Found: f.Found, Expected: f.Want})
	}
	return p
}

// ofUnusable says why a session cannot be used. Where the session is damaged the problem says the
// place, and has a cause for the log.
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

// ofImport says what is wrong with an exported session.
func ofImport(err error) *Problem {
	var other *session.ModelError
	if errors.As(err, &other) {
		return Field(api.ProblemImportModel, "model", Shortened(other.Have), other.Want)
	}
	detail := strings.TrimPrefix(err.Error(), session.ErrImport.Error()+": ")
	return New(api.ProblemImportDamaged, Clipped(detail, limits.DetailCharsMax))
}

// OfBody says why a body could not be read to its end.
func OfBody(err error) *Problem {
	var tooLarge *http.MaxBytesError
	if p := ofKey(err); p != nil {
		return p
	}
	switch {
	case errors.As(err, &tooLarge):
		return New(api.ProblemBodyTooLarge,
			fmt.Sprintf("The body has more than %d bytes.", tooLarge.Limit))
	case errors.Is(err, session.ErrDraining):
		return New(api.ProblemDraining, "")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return New(api.ProblemBodyTimeout, "")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return New(api.ProblemBodyIncomplete, "The body ended before its declared end.")
	}
	return New(api.ProblemBodyIncomplete, err.Error())
}

// OfJSON says why encoding/json could not decode a body that is valid JSON.
func OfJSON(err error) *Problem {
	var mismatch *json.UnmarshalTypeError
	if errors.As(err, &mismatch) && mismatch.Field != "" {
		return Field(api.ProblemInvalidField, mismatch.Field, mismatch.Value,
			"a value that fits "+mismatch.Type.String())
	}
	return New(api.ProblemMalformedBody, err.Error())
}

// ofKey says why a key is not good; nil if err is no error of a key. The problem never repeats the
// key that the request shows.
func ofKey(err error) *Problem {
	switch {
	case errors.Is(err, keys.ErrMalformed):
		return Field(api.ProblemUnauthorized, "Authorization", "a header that is not",
			"Bearer and a key, one time, as lmserve keys add has shown it")
	case errors.Is(err, keys.ErrUnknown):
		return New(api.ProblemUnauthorized, "The key is none of this server's.")
	case errors.Is(err, keys.ErrRevoked):
		return New(api.ProblemUnauthorized, "The key was revoked.")
	case errors.Is(err, keys.ErrExpired):
		return New(api.ProblemUnauthorized, "The key has expired.")
	}
	return nil
}
