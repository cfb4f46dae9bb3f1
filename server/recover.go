package server

import (
	"fmt"
	"net/http"

	"go.uber.org/zap"
)

// recoverPanics answers a request whose handler panicked with a problem, or, if an answer has begun, cuts the connection: a stream that
// ended in a panic must not look as if it had come to its end.
func (s *Server) recoverPanics(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			if v == http.ErrAbortHandler { //nolint:errorlint // net/http compares it so
				panic(v)
			}
			s.log.Error("panic", zap.String("request_id", requestIDOf(r.Context())), zap.Any("value", v), zap.Stack("stack"))
			if began(w) {
				panic(http.ErrAbortHandler)
			}
			s.respondError(w, r, fmt.Errorf("panic: %v", v))
		}()
		next.ServeHTTP(w, r)
	})
}
