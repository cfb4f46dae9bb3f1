package middleware

import (
	"context"
	"net/http"
	"time"

	"github.com/lmserve/lmserve/server/answer"
)

// Observer receives events of requests, for metrics and traces. Its methods may be called
// concurrently.
type Observer interface {
	RequestBegan()
	// RequestEnded reports a finished request with its context, route, method, status and duration.
	// The route is a path pattern of the contract, or "" if no route matches. The status equals the
	// status in the access log.
	RequestEnded(ctx context.Context, route, method string, status int, took time.Duration)
}

// Observe reports every request to an observer. It runs after AccessLog, whose recorder it reads.
func Observe(o Observer) func(http.Handler) http.Handler {
	return wrap(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		start := time.Now()
		o.RequestBegan()
		defer func() {
			rec := answer.RecorderOf(w)
			o.RequestEnded(r.Context(), routeOf(r, rec), r.Method, rec.FinalStatus(r),
				time.Since(start))
		}()
		next.ServeHTTP(w, r)
	})
}
