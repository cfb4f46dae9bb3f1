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

// AccessLog logs each request at its end, at level info, or at level debug for successful health
// checks and metrics requests. It passes an answer.Recorder to the next handler.
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

// routeOf returns the contract's path pattern for a request, or "" if no route matches.
func routeOf(r *http.Request, rec *answer.Recorder) string {
	return cmp.Or(chi.RouteContext(r.Context()).RoutePattern(), rec.Route)
}

// accessLevel returns level debug for successful health checks and metrics requests, else level
// info.
func accessLevel(route string, status int) zapcore.Level {
	isProbe := strings.HasSuffix(route, "z") && strings.Count(route, "/") == 1 ||
		route == "/metrics"
	if isProbe && status < http.StatusBadRequest {
		return zapcore.DebugLevel
	}
	return zapcore.InfoLevel
}

type countingBody struct {
	io.ReadCloser
	n int64
}

func (b *countingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.n += int64(n)
	return n, err
}
