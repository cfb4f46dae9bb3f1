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

// Problems answers failed requests with problem documents (RFC 9457). Details meant only for
// operators go to the log, with the request's id.
type Problems struct {
	log     *zap.Logger
	refused func(kind string)
}

// NewProblems makes a Problems that writes to log. It calls the function refused with the kind of
// each sent problem, such as session-not-found.
func NewProblems(log *zap.Logger, refused func(kind string)) *Problems {
	return &Problems{log: log, refused: refused}
}

// Document returns the problem document for err, with the request's id and the session's id. It
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

// ended returns the error to send to the client. If the request's context has ended, its API key is
// no longer valid, or its client has left. The result gone says that the client has left.
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

// Answer sends the problem for err. If an answer has begun or the client has left, Answer cuts the
// connection instead. A normal return would let net/http end a partial answer as if it were
// complete.
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
	if err != nil { // strings and integers always encode as JSON
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
	_, _ = w.Write(body) // a failed write means that the client has left
}

// ErrBody says that a server could not read the body of a request that it forwards.
var ErrBody = errors.New("server: the request's body cannot be read")

// Cut logs err and cuts the connection, because it is unknown how much another server has done of
// the request. If no answer has begun, the access log gets status 502, which is never sent.
func (a *Problems) Cut(w http.ResponseWriter, r *http.Request, err error) {
	level := zap.ErrorLevel
	if r.Context().Err() != nil || errors.Is(err, ErrBody) {
		// the client has left or sends no more text, which is no failure of the other server
		level = zap.DebugLevel
	}
	a.log.Log(level, "forwarded request cut",
		zap.String("request_id", RequestID(r.Context())), zap.Error(err))
	RecorderOf(w).Cut = true
	panic(http.ErrAbortHandler)
}

// challenge returns the answer's WWW-Authenticate header (RFC 6750, section 3).
func challenge(r *http.Request) string {
	if r.Header.Get("Authorization") == "" {
		return `Bearer realm="lmserve"`
	}
	return `Bearer realm="lmserve", error="invalid_token"`
}
