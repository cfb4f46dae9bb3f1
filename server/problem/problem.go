// Package problem makes the problem documents (RFC 9457) that clients receive. It defines their
// types and maps errors of sessions, keys and bodies to problems.
package problem

import (
	"fmt"
	"time"

	"github.com/lmserve/lmserve/api"
)

// Problem is an error in the form of a problem document (RFC 9457), without the request's id.
type Problem struct {
	api.Problem
	Cause error // for the log only
	// 0 means limits.RetryAfterDefault for statuses 429 and 503, and no header for other statuses
	RetryAfter time.Duration
}

// Error implements error. The text is for logs and includes the cause.
func (p *Problem) Error() string {
	switch {
	case p.Cause != nil:
		return p.Title + ": " + p.Cause.Error()
	case p.Detail != nil:
		return p.Title + ": " + *p.Detail
	}
	return p.Title
}

func (p *Problem) Unwrap() error { return p.Cause }

// New makes a problem of the given type. An empty detail is omitted.
func New(kind api.ProblemType, detail string) *Problem {
	known := Kinds[kind]
	p := &Problem{Problem: api.Problem{Type: kind, Title: known.Title, Status: known.Status}}
	if detail != "" {
		p.Detail = &detail
	}
	return p
}

// Field makes a problem about a field or parameter, with the values found and expected.
func Field(kind api.ProblemType, field, found, expected string) *Problem {
	p := New(kind, fmt.Sprintf("%s: found %s, expected %s", field, found, expected))
	p.Field, p.Found, p.Expected = &field, &found, &expected
	return p
}

// At adds a session's offset to the problem. A negative offset is not added.
func (p *Problem) At(offset int64) *Problem {
	if offset >= 0 {
		p.Offset = &offset
	}
	return p
}
