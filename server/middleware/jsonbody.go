package middleware

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/internal/serving/spool"
	"github.com/lmserve/lmserve/server/answer"
	"github.com/lmserve/lmserve/server/contract"
	"github.com/lmserve/lmserve/server/limits"
	"github.com/lmserve/lmserve/server/problem"
)

// JSONBody receives a JSON body completely, and then waits for the memory to parse the body. While
// the body arrives, all but its beginning goes to a temporary file, so that a slow client holds
// little memory.
func JSONBody(
	c *contract.Contract, memory *Memory, problems *answer.Problems,
) func(http.Handler) http.Handler {
	return wrap(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if !c.Operation(r).TakesJSON(r) {
			next.ServeHTTP(w, r)
			return
		}
		in, err := takeIn(r.Body)
		if err != nil {
			problems.Answer(w, r, err)
			return
		}
		defer in.Close()
		need := limits.JSONReadFactor*in.bytes +
			limits.JSONManyTokenBytes*c.Operation(r).TokensBeyond(in.bytes)
		taken, err := memory.Take(r.Context(), need)
		if err != nil {
			problems.Answer(w, r, err)
			return
		}
		defer taken.Keep(0)
		ctx := context.WithValue(r.Context(), jsonKey{}, &jsonBody{taken, in.bytes})
		r = r.WithContext(ctx)
		r.Body, r.ContentLength = in, in.bytes
		next.ServeHTTP(w, r)
	})
}

type jsonKey struct{}

type jsonBody struct {
	taken *Taken
	bytes int64
}

// HasRead tells the middleware that the handler has parsed the JSON body. It releases the memory
// for parsing, and keeps the memory of the parsed value reserved.
func HasRead(ctx context.Context) {
	if b, ok := ctx.Value(jsonKey{}).(*jsonBody); ok {
		b.taken.Keep(limits.JSONKeptFactor * b.bytes)
	}
}

// takenIn is a completely received request body.
type takenIn struct {
	io.Reader
	bytes int64
	head  []byte
	rest  *spool.Spool // the bytes after head; nil if there are none
}

func (t *takenIn) again() error {
	if t.rest == nil {
		t.Reader = bytes.NewReader(t.head)
		return nil
	}
	r, err := t.rest.Reader()
	if err != nil {
		return err
	}
	t.Reader = io.MultiReader(bytes.NewReader(t.head), r)
	return nil
}

func (t *takenIn) Close() error {
	if t.rest != nil {
		t.rest.Close()
	}
	return nil
}

// takeIn receives a body completely. The error is a problem.
func takeIn(body io.Reader) (*takenIn, error) {
	var head bytes.Buffer
	n, err := head.ReadFrom(io.LimitReader(body, limits.JSONHeadBytes))
	switch {
	case err != nil:
		return nil, problem.OfBody(err)
	case n < limits.JSONHeadBytes:
		return &takenIn{Reader: bytes.NewReader(head.Bytes()), bytes: n, head: head.Bytes()}, nil
	}
	rest, err := spool.Receive(body)
	var reading *spool.ReadError
	switch {
	case errors.As(err, &reading):
		return nil, problem.OfBody(reading.Err)
	case err != nil:
		return nil, session.SpoolError(err)
	}
	in := &takenIn{head: head.Bytes(), rest: rest}
	more, err := rest.Bytes()
	if err == nil {
		err = in.again()
	}
	if err != nil {
		rest.Close()
		return nil, err
	}
	in.bytes = n + more
	return in, nil
}
