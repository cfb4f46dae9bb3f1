package server

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/keys"
	"github.com/lmserve/lmserve/internal/session"
)

// caller is whom a request comes from.
type caller struct {
	session.Caller
	meter *meter // of its key; nil for the anonymous owner of a server without keys
}

type callerKey struct{}

// callerOf is whom an authenticated request comes from. A handler that asks for it on a public route is wrong, and fails.
func callerOf(ctx context.Context) *caller { return ctx.Value(callerKey{}).(*caller) }

// authenticate lets through requests with a good key, and those to operations that the contract makes public; all, where there are no keys.
// Whatever is not known to be public is not. It comes before everything that looks at a request, so that strangers learn nothing.
func (s *Server) authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		route, public := s.contract.route(s.router, r)
		if public {
			next.ServeHTTP(w, r)
			return
		}
		who := &caller{}
		if ring := s.options.Keys; ring != nil && ring.Required() {
			k, p := authenticate(ring, r)
			if p != nil {
				recorderOf(w).route = route // which chi has not found yet
				s.respondError(w, r, p)
				return
			}
			who.meter = s.meters.of(k)
			who.Caller = session.Caller{Key: k.ID, Admin: k.Admin, MaxSessions: who.meter.limits.Sessions}
			recorderOf(w).key = k.ID
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, who)))
	})
}

// authenticate finds the key of a request.
func authenticate(ring *keys.Ring, r *http.Request) (keys.Key, *problem) {
	headers := r.Header.Values("Authorization")
	if len(headers) == 0 {
		return keys.Key{}, fieldProblem(api.ProblemUnauthorized, "Authorization", "no such header", "Bearer and a key")
	}
	scheme, token, _ := strings.Cut(headers[0], " ")
	if len(headers) > 1 || !strings.EqualFold(scheme, "Bearer") {
		return keys.Key{}, unauthorized(keys.ErrMalformed)
	}
	k, err := ring.Authenticate(strings.TrimSpace(token))
	if err != nil {
		return keys.Key{}, unauthorized(err)
	}
	return k, nil
}

// unauthorized says why a key is not good; nil if err is none of that kind. What was shown is never repeated.
func unauthorized(err error) *problem {
	switch {
	case errors.Is(err, keys.ErrMalformed):
		return fieldProblem(api.ProblemUnauthorized, "Authorization", "a header that is not", "Bearer and a key, one time, as lmserve keys add has shown it")
	case errors.Is(err, keys.ErrUnknown):
		return newProblem(api.ProblemUnauthorized, "The key is none of this server's.")
	case errors.Is(err, keys.ErrRevoked):
		return newProblem(api.ProblemUnauthorized, "The key was revoked.")
	case errors.Is(err, keys.ErrExpired):
		return newProblem(api.ProblemUnauthorized, "The key has expired.")
	}
	return nil
}

// challenge is the answer's WWW-Authenticate (RFC 6750, section 3).
func challenge(r *http.Request) string {
	if r.Header.Get("Authorization") == "" {
		return `Bearer realm="lmserve"`
	}
	return `Bearer realm="lmserve", error="invalid_token"`
}

// route finds the route of a request before chi does, and whether the contract makes it public.
func (c *contract) route(router *chi.Mux, r *http.Request) (pattern string, public bool) {
	path := r.URL.RawPath // as chi chooses
	if path == "" {
		path = r.URL.Path
	}
	pattern = router.Find(chi.NewRouteContext(), getForHead(r.Method), path)
	op := c.operations[getForHead(r.Method)+" "+pattern]
	return pattern, op != nil && op.public
}

// getForHead is the method whose operation answers a request.
func getForHead(method string) string {
	if method == http.MethodHead {
		return http.MethodGet
	}
	return method
}
