package middleware

import (
	"fmt"
	"net/http"

	"go.uber.org/zap"

	"github.com/lmserve/lmserve/server/answer"
)

// Recover answers with a problem if a handler panics. If the answer has begun, Recover closes the
// connection instead, so that the answer does not look complete.
func Recover(log *zap.Logger, problems *answer.Problems) func(http.Handler) http.Handler {
	return wrap(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			if v == http.ErrAbortHandler { //nolint:errorlint // net/http compares it so
				panic(v)
			}
			log.Error("panic", zap.String("request_id", answer.RequestID(r.Context())),
				zap.Any("value", v), zap.Stack("stack"))
			if answer.RecorderOf(w).Began() {
				panic(http.ErrAbortHandler)
			}
			problems.Answer(w, r, fmt.Errorf("panic: %v", v))
		}()
		next.ServeHTTP(w, r)
	})
}
