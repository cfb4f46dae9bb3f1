package middleware

import (
	"cmp"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/lmserve/lmserve/server/answer"
)

// AccessLog logs each request when it ends, at level info, or debug for successful probes. Later
// handlers answer through an answer.Recorder.
func AccessLog(log *zap.Logger) func(http.Handler) http.Handler {
	return wrap(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		start := time.Now()
		rec := &answer.Recorder{ResponseWriter: w}
		in := &countingBody{ReadCloser: r.Body}
		r.Body = in
		defer func() {
			route := routeOf(r, rec)
			log.Check(accessLevel(route, rec.Status), "request").Write(
				zap.String("method", r.Method),
				zap.String("route", route),
				zap.String("session", chi.URLParam(r, "id")),
				zap.String("key", rec.Key),
				zap.Int("status", rec.FinalStatus(r)),
				zap.Int64("bytes_in", in.n),
				zap.Int64("bytes_out", rec.Bytes),
				zap.Duration("duration", time.Since(start)),
				zap.String("remote", r.RemoteAddr),
				zap.String("request_id", answer.RequestID(r.Context())),
			)
		}()
		next.ServeHTTP(rec, r)
	})
}

// routeOf returns the request's route as the contract writes it, or "" without a route.
func routeOf(r *http.Request, rec *answer.Recorder) string {
	return cmp.Or(chi.RouteContext(r.Context()).RoutePattern(), rec.Route)
}

// accessLevel keeps successful probes out of the log.
func accessLevel(route string, status int) zapcore.Level {
	isProbe := strings.HasSuffix(route, "z") && strings.Count(route, "/") == 1 ||
		route == "/metrics"
	if isProbe && status < http.StatusBadRequest {
		return zapcore.DebugLevel
	}
	return zapcore.InfoLevel
}

// countingBody counts the bytes read from a body.
type countingBody struct {
	io.ReadCloser
	n int64
}

func (b *countingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.n += int64(n)
	return n, err
}
