// Package problem has the errors that clients are told, as problem documents (RFC 9457): the types
// that there are, and what each error of sessions, keys and bodies is to the client.
package problem

import (
	"fmt"
	"time"

	"github.com/lmserve/lmserve/api"
)

// Problem is an error that is a problem document (RFC 9457), but for the request's id.
type Problem struct {
	api.Problem
	Cause      error         // for the log; the client never sees it
	RetryAfter time.Duration // 0: with statuses 429 and 503 limits.RetryAfterDefault, else none
}

// Error implements error. It is for logs, and has the cause.
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

// New makes a problem of a type. An empty detail says nothing.
func New(kind api.ProblemType, detail string) *Problem {
	known := Kinds[kind]
	p := &Problem{Problem: api.Problem{Type: kind, Title: known.Title, Status: known.Status}}
	if detail != "" {
		p.Detail = &detail
	}
	return p
}

// Field makes a problem about a field or parameter: what was found there, and what was expected.
func Field(kind api.ProblemType, field, found, expected string) *Problem {
	p := New(kind, fmt.Sprintf("%s: found %s, expected %s", field, found, expected))
	p.Field, p.Found, p.Expected = &field, &found, &expected
	return p
}

// At adds the session's offset, unless it is negative.
func (p *Problem) At(offset int64) *Problem {
	if offset >= 0 {
		p.Offset = &offset
	}
	return p
}
