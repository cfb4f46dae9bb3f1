package server

import (
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// statusClientGone is what the log says of a request whose client left before an answer began. It is never sent.
const statusClientGone = 499

// accessLog writes one entry for each request when it ends: at level info, or debug for the probes of a healthy server.
func (s *Server) accessLog(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		rec := &recorder{ResponseWriter: w}
		in := &countingBody{ReadCloser: r.Body}
		r.Body = in
		defer func() {
			route := chi.RouteContext(r.Context()).RoutePattern()
			if route == "" {
				route = rec.route
			}
			s.log.Check(accessLevel(route, rec.status), "request").Write(
				zap.String("method", r.Method),
				zap.String("route", route),
				zap.String("session", chi.URLParam(r, "id")),
				zap.String("key", rec.key),
				zap.Int("status", rec.finalStatus(r)),
				zap.Int64("bytes_in", in.n),
				zap.Int64("bytes_out", rec.n),
				zap.Duration("duration", time.Since(start)),
				zap.String("remote", r.RemoteAddr),
				zap.String("request_id", requestIDOf(r.Context())),
			)
		}()
		next.ServeHTTP(rec, r)
	})
}

// accessLevel keeps probes out of the log as long as they find nothing.
func accessLevel(route string, status int) zapcore.Level {
	if status < http.StatusBadRequest && strings.HasSuffix(route, "z") && strings.Count(route, "/") == 1 {
		return zapcore.DebugLevel
	}
	return zapcore.InfoLevel
}

// recorder notes what is answered.
type recorder struct {
	http.ResponseWriter
	status int    // 0: nothing yet
	n      int64  // bytes of the answer's body
	key    string // id of the caller's; "" if none was asked for, or given
	route  string // of a request that was refused before it was routed
}

// Unwrap lets http.ResponseController through.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *recorder) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK { // 1xx come before the answer
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorder) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(b)
	w.n += int64(n)
	return n, err
}

// finalStatus is the status to be logged once the handler is done.
func (w *recorder) finalStatus(r *http.Request) int {
	switch {
	case w.status != 0:
		return w.status
	case r.Context().Err() != nil:
		return statusClientGone
	}
	return http.StatusOK // what net/http sends for a handler that wrote nothing
}

// began reports whether an answer has begun.
func began(w http.ResponseWriter) bool { return recorderOf(w).status != 0 }

// recorderOf finds the access log's recorder under the writers of other middleware.
func recorderOf(w http.ResponseWriter) *recorder {
	for {
		if rec, ok := w.(*recorder); ok {
			return rec
		}
		w = w.(interface{ Unwrap() http.ResponseWriter }).Unwrap()
	}
}

// countingBody counts the bytes read of a body.
type countingBody struct {
	io.ReadCloser
	n int64
}

func (b *countingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.n += int64(n)
	return n, err
}
