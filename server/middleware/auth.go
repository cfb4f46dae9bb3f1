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

// caller is the sender of a request, with the limits of its key. If the server has no keys, all
// requests have the same anonymous caller, which has no limits.
type caller struct {
	session.Caller
	limits keys.Limits // all fields are set; zero for the anonymous caller
}

type callerKey struct{}

// CallerOf returns the caller of an authenticated request. It panics on a public route, because the
// request has no caller.
func CallerOf(ctx context.Context) session.Caller { return ctx.Value(callerKey{}).(caller).Caller }

// Authenticate admits requests with a valid key and requests to public operations of the contract.
// Authenticate admits all requests if ring is nil or has no keys file. Unknown operations are not
// public. Authenticate runs before all code that inspects a request, so that strangers learn
// nothing. Authenticate also runs before the router, so it looks up the operation in routes.
//
// If the key becomes invalid during a request, Authenticate cancels the request's context and stops
// the request's body. The cause is the reason, which package answer reports.
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

// stopBody stops reading of the body once the context held is done, because the key is then no
// longer valid. A call of cancel prevents the stop.
func stopBody(held context.Context, body io.ReadCloser) (cancel func() bool) {
	return context.AfterFunc(held, func() {
		if b, ok := body.(*patientBody); ok {
			b.stop(context.Cause(held))
		}
	})
}

// authenticate returns the key of a request. Its errors do not contain the token of the request.
func authenticate(ring *keys.Ring, r *http.Request) (keys.Key, error) {
	headers := r.Header.Values("Authorization")
	if len(headers) == 0 {
		return keys.Key{}, problem.Field(api.ProblemUnauthorized, "Authorization",
			"no header", "Bearer and a key from 'lmserve keys add'")
	}
	scheme, token, _ := strings.Cut(headers[0], " ")
	if len(headers) > 1 || !strings.EqualFold(scheme, "Bearer") {
		return keys.Key{}, keys.ErrMalformed
	}
	return ring.Authenticate(strings.TrimSpace(token))
}

func withDefaultLimits(l keys.Limits) keys.Limits {
	l.Sessions = cmp.Or(l.Sessions, limits.KeySessionsDefault)
	l.Requests = cmp.Or(l.Requests, limits.KeyRequestsDefault)
	l.BytesPerSecond = cmp.Or(l.BytesPerSecond, limits.KeyBytesPerSecondDefault)
	l.Disk = cmp.Or(l.Disk, limits.KeyDiskBytesDefault)
	return l
}
