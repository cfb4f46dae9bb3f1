package problem

import (
	"fmt"
	"time"

	"github.com/lmserve/lmserve/api"
)

// Problem is an error that is a problem document, less its request id.
type Problem struct {
	api.Problem
	Cause      error         // what to log; never shown
	RetryAfter time.Duration // of 429 and 503; 0: limits.RetryAfterDefault
}

// Error is for logs: it has the cause.
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

// New makes a problem of a type. detail may be "".
func New(kind api.ProblemType, detail string) *Problem {
	p := &Problem{Problem: api.Problem{Type: kind, Title: Kinds[kind].Title, Status: Kinds[kind].Status}}
	if detail != "" {
		p.Detail = &detail
	}
	return p
}

// Field makes a problem about a field or parameter: what was found there, what was expected.
func Field(kind api.ProblemType, field, found, expected string) *Problem {
	p := New(kind, fmt.Sprintf("%s: found %s, expected %s", field, found, expected))
	p.Field, p.Found, p.Expected = &field, &found, &expected
	return p
}

// At adds the session's offset, where there is one.
func (p *Problem) At(offset int64) *Problem {
	if offset >= 0 {
		p.Offset = &offset
	}
	return p
}
