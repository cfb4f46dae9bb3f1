package middleware

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/keys"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/answer"
	"github.com/lmserve/lmserve/server/contract"
	"github.com/lmserve/lmserve/server/limits"
	"github.com/lmserve/lmserve/server/problem"
)

// caller is whom a request comes from, and what the caller may use. A server without keys has one
// anonymous caller, to whom no limits belong.
type caller struct {
	session.Caller
	limits keys.Limits // every field is set, but for the anonymous caller
}

type callerKey struct{}

// CallerOf is whom an authenticated request comes from. A handler that asks for the caller on a
// public route is wrong, and fails.
func CallerOf(ctx context.Context) session.Caller { return ctx.Value(callerKey{}).(caller).Caller }

// Authenticate lets through requests with a good key, and requests to operations that the contract
// makes public; all requests, where the server asks for no keys (ring is nil, or has no keys file).
// Whatever is not known to be public is not. Authenticate comes before everything that looks at a
// request, so that strangers learn nothing. The router has not found the route by then: routes
// tells.
//
// The request's context ends when its key is no longer good, with the reason as its cause, and so
// does its body: whatever works for the request ends, and package answer tells the reason.
func Authenticate(
	ring *keys.Ring, c *contract.Contract, routes chi.Routes, problems *answer.Problems,
) func(http.Handler) http.Handler {
	return wrap(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		route, public := c.Find(routes, r)
		if public {
			next.ServeHTTP(w, r)
			return
		}
		var who caller
		if ring != nil && ring.Required() {
			k, err := authenticate(ring, r)
			if err != nil {
				answer.RecorderOf(w).Route = route
				problems.Answer(w, r, err)
				return
			}
			most := withDefaultLimits(k.Limits)
			who = caller{session.Caller{
				Key: k.ID, Admin: k.Admin, MaxSessions: most.Sessions, MaxDisk: most.Disk,
			}, most}
			answer.RecorderOf(w).Key = k.ID
		}
		ctx := context.WithValue(r.Context(), callerKey{}, who)
		if who.Key != "" {
			held, release := ring.Hold(ctx, who.Key)
			defer release()
			defer stopBody(held, r.Body)()
			ctx = held
		}
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// stopBody stops a body when its caller's key is no longer good, until cancel is called.
func stopBody(held context.Context, body io.ReadCloser) (cancel func() bool) {
	return context.AfterFunc(held, func() {
		if b, ok := body.(*patientBody); ok {
			b.stop(context.Cause(held))
		}
	})
}

// authenticate finds the key of a request. Its errors never repeat what the request shows as a key.
func authenticate(ring *keys.Ring, r *http.Request) (keys.Key, error) {
	headers := r.Header.Values("Authorization")
	if len(headers) == 0 {
		return keys.Key{}, problem.Field(api.ProblemUnauthorized, "Authorization",
			"no such header", "Bearer and a key")
	}
	scheme, token, _ := strings.Cut(headers[0], " ")
	if len(headers) > 1 || !strings.EqualFold(scheme, "Bearer") {
		return keys.Key{}, keys.ErrMalformed
	}
	return ring.Authenticate(strings.TrimSpace(token))
}

// withDefaultLimits fills in the limits that a key's entry in the keys file leaves out.
func withDefaultLimits(l keys.Limits) keys.Limits {
	l.Sessions = cmp.Or(l.Sessions, limits.KeySessionsDefault)
	l.Requests = cmp.Or(l.Requests, limits.KeyRequestsDefault)
	l.BytesPerSecond = cmp.Or(l.BytesPerSecond, limits.KeyBytesPerSecondDefault)
	l.Disk = cmp.Or(l.Disk, limits.KeyDiskBytesDefault)
	return l
}
