package middleware

import (
	"context"
	"net/http"
	"time"

	"github.com/lmserve/lmserve/server/answer"
)

// Observer is told of requests, for metrics and traces. Its methods may be called at once.
type Observer interface {
	RequestBegan()
	// RequestEnded is told of a request's route, which is a pattern of the contract, or "" where
	// there is none, and of its status, as the access log has it. The context is the request's.
	RequestEnded(ctx context.Context, route, method string, status int, took time.Duration)
}

// Observe has an observer told of every request. It comes behind AccessLog.
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
