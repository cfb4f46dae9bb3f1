package answer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"

	"github.com/go-chi/chi/v5"
	"go.uber.org/zap"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/server/contract"
	"github.com/lmserve/lmserve/server/limits"
	"github.com/lmserve/lmserve/server/problem"
)

// Problems answers requests with problem documents. What only those who run the server should know
// of an error goes to the log, under the request's id.
type Problems struct {
	log     *zap.Logger
	refused func(kind string)
}

// NewProblems makes a Problems that writes to this log, and has refused told of the kind of each
// problem that a client is told, as session-not-found.
func NewProblems(log *zap.Logger, refused func(kind string)) *Problems {
	return &Problems{log: log, refused: refused}
}

// Document completes the problem that err is for one request: its id, and the session it names. It
// logs the problem's cause.
func (a *Problems) Document(ctx context.Context, err error) api.Problem {
	p := problem.Of(err)
	doc := p.Problem
	doc.RequestID = RequestID(ctx)
	if doc.Type == api.ProblemSessionNotFound && doc.Detail == nil {
		id := problem.Quoted(chi.URLParamFromCtx(ctx, "id"))
		detail := fmt.Sprintf("No session has the id or the name %s.", id)
		doc.Detail = &detail
	}
	if p.Cause != nil {
		a.log.Error("request failed", zap.String("request_id", doc.RequestID), zap.Error(p.Cause))
	}
	if inOpenAIForm(ctx) {
		return problem.InOpenAIForm(doc)
	}
	if form, ok := shipperForm(ctx); ok {
		return form.document(doc)
	}
	return doc
}

// ended says what the error of a request is to its client. If the request's context has ended, then
// that is what has ended the request: either the caller's key is no longer good, which the client
// is told, or nobody is there to read an answer.
func ended(ctx context.Context, err error) (told error, gone bool) {
	if ctx.Err() == nil {
		return err, false
	}
	reason := problem.Of(context.Cause(ctx))
	if reason.Type != api.ProblemUnauthorized {
		return err, true
	}
	if first, ok := errors.AsType[*problem.Problem](err); ok && first.Offset != nil {
		reason.At(*first.Offset)
	}
	return reason, false
}

// Answer answers a request with the problem that err is. Where an answer has begun, or nobody is
// there to read it, Answer cuts the connection instead: net/http would make a whole answer of what
// there is, even of nothing.
func (a *Problems) Answer(w http.ResponseWriter, r *http.Request, err error) {
	err, gone := ended(r.Context(), err)
	if RecorderOf(w).Began() || gone {
		a.log.Debug("answer abandoned",
			zap.String("request_id", RequestID(r.Context())), zap.Error(err))
		panic(http.ErrAbortHandler)
	}
	p := problem.Of(err)
	doc := a.Document(r.Context(), p)
	a.refused(problem.Name(p.Type))
	body, err := json.Marshal(doc)
	if err != nil { // strings and integers always have a form in JSON
		panic(err)
	}
	body = append(body, '\n')
	h := w.Header()
	h.Set("Content-Type", contract.MediaProblem)
	if form, _ := shipperForm(r.Context()); form.Protobuf {
		h.Set("Content-Type", contract.MediaProtobuf)
		body = status(doc)
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	after := p.RetryAfter
	switch doc.Status {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", challenge(r))
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		after = cmp.Or(after, limits.RetryAfterDefault)
	}
	if after > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(after.Seconds()))))
	}
	w.WriteHeader(doc.Status)
	_, _ = w.Write(body) // if the client is gone there is nobody to tell
}

// challenge is the answer's WWW-Authenticate (RFC 6750, section 3).
func challenge(r *http.Request) string {
	if r.Header.Get("Authorization") == "" {
		return `Bearer realm="lmserve"`
	}
	return `Bearer realm="lmserve", error="invalid_token"`
}
