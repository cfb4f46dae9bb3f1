package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"go.uber.org/zap"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/session"
)

// problemKinds gives each type of problem its status and title. The contract has the same table (ProblemType's x-problems; a test holds
// them equal).
var problemKinds = map[api.ProblemType]struct {
	status int
	title  string
}{
	api.ProblemInvalidParameter:     {http.StatusBadRequest, "A parameter of the path or query cannot be used"},
	api.ProblemMalformedBody:        {http.StatusBadRequest, "The body is not what its Content-Type says"},
	api.ProblemBodyIncomplete:       {http.StatusBadRequest, "The body was cut off; what was reported before stays"},
	api.ProblemImportDamaged:        {http.StatusBadRequest, "The file is damaged, or no export of a session"},
	api.ProblemUnauthorized:         {http.StatusUnauthorized, "The request has no key that is good here; what was reported before stays"},
	api.ProblemNotFound:             {http.StatusNotFound, "There is nothing at this path"},
	api.ProblemSessionNotFound:      {http.StatusNotFound, "There is no such session"},
	api.ProblemMethodNotAllowed:     {http.StatusMethodNotAllowed, "The path does not know this method"},
	api.ProblemNotAcceptable:        {http.StatusNotAcceptable, "No answer can be given in a form that Accept allows"},
	api.ProblemBodyTimeout:          {http.StatusRequestTimeout, "The body stalled; what was reported before stays"},
	api.ProblemOffsetConflict:       {http.StatusConflict, "The session is at another offset"},
	api.ProblemSessionBusy:          {http.StatusConflict, "Another request is feeding the session"},
	api.ProblemSessionFull:          {http.StatusConflict, "The session has as much text as it can have; what was reported before stays"},
	api.ProblemSessionUnusable:      {http.StatusConflict, "The session is damaged, or another model's; it can be deleted"},
	api.ProblemHistoryTrimmed:       {http.StatusGone, "The session does not keep this part of its text any more"},
	api.ProblemBodyTooLarge:         {http.StatusRequestEntityTooLarge, "The body is too large; what was reported before stays"},
	api.ProblemUnsupportedMediaType: {http.StatusUnsupportedMediaType, "A body of this kind cannot be used here"},
	api.ProblemInvalidField:         {http.StatusUnprocessableEntity, "A field of the body has a value that cannot be used"},
	api.ProblemImportModel:          {http.StatusUnprocessableEntity, "The exported session is another model's"},
	api.ProblemKeySessionLimit:      {http.StatusTooManyRequests, "The key has as many live sessions as it may have"},
	api.ProblemKeyRequestLimit:      {http.StatusTooManyRequests, "The key has as many requests at work as it may have"},
	api.ProblemKeyRateLimit:         {http.StatusTooManyRequests, "The key has used up its bytes a second"},
	api.ProblemInternal:             {http.StatusInternalServerError, "The server failed; what was reported before stays"},
	api.ProblemSessionLimit:         {http.StatusServiceUnavailable, "The limit on live sessions, or on their memory, is reached"},
	api.ProblemOverloaded:           {http.StatusServiceUnavailable, "As many requests wait for a worker as may"},
	api.ProblemStoreFailed:          {http.StatusServiceUnavailable, "What keeps the sessions has failed, and the server ends; what was reported before stays"},
	api.ProblemDraining:             {http.StatusServiceUnavailable, "The server is shutting down; what was reported before stays"},
	api.ProblemNoSpace:              {http.StatusInsufficientStorage, "The disk is full; what was reported before stays"},
}

// problem is an error that is a problem document, less its request id.
type problem struct {
	api.Problem
	cause      error         // what to log; never shown
	retryAfter time.Duration // of 429 and 503; 0: retryAfterDefault
}

// Error is for logs: it has the cause.
func (p *problem) Error() string {
	switch {
	case p.cause != nil:
		return p.Title + ": " + p.cause.Error()
	case p.Detail != nil:
		return p.Title + ": " + *p.Detail
	}
	return p.Title
}

func (p *problem) Unwrap() error { return p.cause }

// newProblem makes a problem of a type. detail may be "".
func newProblem(kind api.ProblemType, detail string) *problem {
	p := &problem{Problem: api.Problem{Type: kind, Title: problemKinds[kind].title, Status: problemKinds[kind].status}}
	if detail != "" {
		p.Detail = &detail
	}
	return p
}

// fieldProblem makes a problem about a field or parameter: what was found there, what was expected.
func fieldProblem(kind api.ProblemType, field, found, expected string) *problem {
	p := newProblem(kind, fmt.Sprintf("%s: found %s, expected %s", field, found, expected))
	p.Field, p.Found, p.Expected = &field, &found, &expected
	return p
}

// at adds the session's offset, where there is one.
func (p *problem) at(offset int64) *problem {
	if offset >= 0 {
		p.Offset = &offset
	}
	return p
}

// problemOf turns any error of a handler into the problem its caller is told.
func problemOf(err error) *problem {
	var (
		ready    *problem
		body     *session.BodyError
		offset   *session.OffsetError
		limit    *session.LimitError
		trimmed  *session.TrimmedError
		field    *session.FieldError
		quota    *session.QuotaError
		unusable *session.UnusableError
	)
	switch {
	case errors.As(err, &ready):
		return ready
	case errors.As(err, &body):
		return bodyProblem(body.Err).at(body.Offset)
	case errors.As(err, &unusable):
		return unusableProblem(unusable)
	case errors.Is(err, session.ErrImport):
		return importProblem(err)
	case errors.As(err, &offset):
		return fieldProblem(api.ProblemOffsetConflict, "offset", strconv.FormatInt(offset.Want, 10),
			strconv.FormatInt(offset.Have, 10)).at(offset.Have)
	case errors.As(err, &limit):
		return newProblem(api.ProblemSessionFull, fmt.Sprintf("A session has at most %d bytes of text.", limit.Max)).at(limit.Offset)
	case errors.As(err, &trimmed):
		return fieldProblem(api.ProblemHistoryTrimmed, trimmed.Field, trimmed.Found, trimmed.Want)
	case errors.As(err, &field):
		return fieldProblem(api.ProblemInvalidField, field.Field, field.Found, field.Want)
	case errors.As(err, &quota):
		return newProblem(api.ProblemKeySessionLimit, fmt.Sprintf("The key has %d live sessions.", quota.Max))
	case errors.Is(err, session.ErrNotFound):
		return newProblem(api.ProblemSessionNotFound, "")
	case errors.Is(err, session.ErrBusy):
		return newProblem(api.ProblemSessionBusy, "")
	case errors.Is(err, session.ErrFull):
		return newProblem(api.ProblemSessionLimit, strings.TrimPrefix(err.Error(), "session: "))
	case errors.Is(err, session.ErrOverloaded):
		return newProblem(api.ProblemOverloaded, "")
	case errors.Is(err, session.ErrDraining):
		return newProblem(api.ProblemDraining, "")
	case errors.Is(err, session.ErrStore):
		return loggedProblem(api.ProblemStoreFailed, err)
	case errors.Is(err, session.ErrNoSpace):
		return loggedProblem(api.ProblemNoSpace, err)
	case errors.Is(err, session.ErrUnavailable): // as after an overload, the same request may succeed later
		return loggedProblem(api.ProblemOverloaded, err)
	}
	return loggedProblem(api.ProblemInternal, err)
}

// loggedProblem is of what concerns those who run the server.
func loggedProblem(kind api.ProblemType, cause error) *problem {
	p := newProblem(kind, "The server's log has more, under this request_id.")
	p.cause = cause
	return p
}

// unusableProblem says where a session is damaged, if that is it, and logs it.
func unusableProblem(e *session.UnusableError) *problem {
	p := newProblem(api.ProblemSessionUnusable, clipped(e.Err.Error(), detailCharsMax))
	found := e.Damage()
	if found == nil {
		return p
	}
	p.cause = e
	p.Damage = &api.Damage{File: found.File}
	if found.Byte >= 0 {
		p.Damage.Byte = &found.Byte
	}
	if found.Offset >= 0 {
		p.Damage.Offset = &found.Offset
	}
	return p
}

// importProblem says what is wrong with an exported session.
func importProblem(err error) *problem {
	var other *session.ModelError
	if errors.As(err, &other) {
		return fieldProblem(api.ProblemImportModel, "model", shortened(other.Have), other.Want)
	}
	return newProblem(api.ProblemImportDamaged, clipped(strings.TrimPrefix(err.Error(), session.ErrImport.Error()+": "), detailCharsMax))
}

// bodyProblem says why a body could not be read to its end.
func bodyProblem(err error) *problem {
	var tooLarge *http.MaxBytesError
	if p := unauthorized(err); p != nil {
		return p
	}
	switch {
	case errors.As(err, &tooLarge):
		return newProblem(api.ProblemBodyTooLarge, fmt.Sprintf("The body has more than %d bytes.", tooLarge.Limit))
	case errors.Is(err, session.ErrDraining):
		return newProblem(api.ProblemDraining, "")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return newProblem(api.ProblemBodyTimeout, "")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return newProblem(api.ProblemBodyIncomplete, "The body ended before its declared end.")
	}
	return newProblem(api.ProblemBodyIncomplete, err.Error())
}

// document completes a problem for one request: its id, and the session it names.
func (s *Server) document(ctx context.Context, err error) api.Problem {
	p := problemOf(err)
	doc := p.Problem
	doc.RequestID = requestIDOf(ctx)
	if doc.Type == api.ProblemSessionNotFound && doc.Detail == nil {
		detail := fmt.Sprintf("No session has the id %s.", quoted(chi.URLParamFromCtx(ctx, "id")))
		doc.Detail = &detail
	}
	if p.cause != nil {
		s.log.Error("request failed", zap.String("request_id", doc.RequestID), zap.Error(p.cause))
	}
	return doc
}

// respondError answers a request with the problem that err is. Where an answer has begun, or nobody is there to read it, it cuts the
// connection instead: net/http would make a whole answer of what there is, even of nothing.
func (s *Server) respondError(w http.ResponseWriter, r *http.Request, err error) {
	if began(w) || r.Context().Err() != nil {
		s.log.Debug("answer abandoned", zap.String("request_id", requestIDOf(r.Context())), zap.Error(err))
		panic(http.ErrAbortHandler)
	}
	p := problemOf(err)
	doc := s.document(r.Context(), p)
	body, err := json.Marshal(doc)
	if err != nil { // strings and integers always can be
		panic(err)
	}
	h := w.Header()
	h.Set("Content-Type", mediaProblem)
	h.Set("Content-Length", strconv.Itoa(len(body)+1))
	h.Set("Cache-Control", "no-store")
	switch doc.Status {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", challenge(r))
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		after := p.retryAfter
		if after == 0 {
			after = retryAfterDefault
		}
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(after.Seconds()))))
	}
	w.WriteHeader(doc.Status)
	_, _ = w.Write(append(body, '\n')) // if the client is gone there is nobody to tell
}

// respondDecodeError answers a body that passed validation and still does not fit its type, such as an integer written 1e2.
func (s *Server) respondDecodeError(w http.ResponseWriter, r *http.Request, err error) {
	s.respondError(w, r, decodeProblem(err))
}

// decodeProblem turns an error of encoding/json into a problem.
func decodeProblem(err error) *problem {
	var mismatch *json.UnmarshalTypeError
	if errors.As(err, &mismatch) && mismatch.Field != "" {
		return fieldProblem(api.ProblemInvalidField, mismatch.Field, mismatch.Value, "a value that fits "+mismatch.Type.String())
	}
	return newProblem(api.ProblemMalformedBody, err.Error())
}

// routeNotFound answers paths the contract does not have.
func (s *Server) routeNotFound(w http.ResponseWriter, r *http.Request) {
	s.respondError(w, r, newProblem(api.ProblemNotFound, ""))
}

// methodNotAllowed answers methods that a path of the contract does not have.
func (s *Server) methodNotAllowed(w http.ResponseWriter, r *http.Request) {
	routes := chi.RouteContext(r.Context()).Routes
	for _, method := range []string{http.MethodDelete, http.MethodGet, http.MethodHead, http.MethodPatch, http.MethodPost, http.MethodPut} {
		as := method
		if method == http.MethodHead {
			as = http.MethodGet
		}
		if routes.Match(chi.NewRouteContext(), as, r.URL.Path) {
			w.Header().Add("Allow", method)
		}
	}
	s.respondError(w, r, newProblem(api.ProblemMethodNotAllowed, ""))
}
