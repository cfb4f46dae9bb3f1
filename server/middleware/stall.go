package middleware

import (
	"context"
	"net/http"
	"time"

	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/contract"
)

// Stall allows a request any length of time as long as its body makes progress: every read of the
// body has its own deadline. A stalled client thus blocks only itself, and a slow stream is not cut
// off. The connection handles deadlines of the answer. Once the context draining is done, reading
// an unfinished body returns an error.
//
// While a request waits for something other than its body (see Attend), the body is read ahead and
// the client has no deadline.
//
// Stall also allows answers before the end of the body: events are sent while text arrives, and an
// error need not wait for the rest of the body.
func Stall(
	bodyIdle time.Duration, draining context.Context,
) func(http.Handler) http.Handler {
	return wrap(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if !contract.HasBody(r) {
			next.ServeHTTP(w, r)
			return
		}
		// Writers without a connection, such as those of tests, support neither deadlines nor full
		// duplex, but have no client that could stall.
		control := http.NewResponseController(w)
		_ = control.EnableFullDuplex()
		// net/http cancels a request's context as soon as a read of its body fails. The context
		// here is not canceled then, because text read before the failure must still be scored and
		// answered. Once the body has ended, the context is canceled as usual when the client
		// leaves.
		ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
		defer cancel()
		in := newPatientBody(r, control, bodyIdle, cancel)
		defer in.finish()
		stop := context.AfterFunc(draining, func() { in.stop(session.ErrDraining) })
		defer stop()
		out := &closingWriter{ResponseWriter: w, body: in}
		request := r.WithContext(context.WithValue(ctx, bodyKey{}, in))
		request.Body = in
		next.ServeHTTP(out, request)
	})
}

// closingWriter announces that an answer closes the connection if the body was not read to its end:
// the server could not tell the next request from the rest of the body.
type closingWriter struct {
	http.ResponseWriter
	body  *patientBody // body of the request
	began bool
}

// Unwrap gives http.ResponseController access to the wrapped writer.
func (w *closingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *closingWriter) WriteHeader(status int) {
	if !w.began && status >= http.StatusOK {
		w.began = true
		if !w.body.hasEnded() {
			w.Header().Set("Connection", "close")
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *closingWriter) Write(p []byte) (int, error) {
	if !w.began {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(p)
}
