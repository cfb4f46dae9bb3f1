package middleware

import (
	"context"
	"net/http"
	"time"

	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/contract"
)

// Stall limits the time between the bytes of a request body, not the total time: each read has its
// own deadline. A stalled client is cut off, but a slow stream is not. The connection itself has
// the deadlines of the answer. When the context draining is done, reading an unfinished body
// returns an error.
//
// While a handler waits for something other than the body (see Attend), the server reads the body
// ahead, and the client has no deadline.
//
// Stall also allows an answer before the end of the body: events are sent while text arrives, and
// an error is sent at once.
func Stall(
	bodyIdle time.Duration, draining context.Context,
) func(http.Handler) http.Handler {
	return wrap(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if !contract.HasBody(r) {
			next.ServeHTTP(w, r)
			return
		}
		// Writers without a connection, as in tests, support neither deadlines nor full duplex. The
		// errors are ignored, because such writers have no client that could stall.
		control := http.NewResponseController(w)
		_ = control.EnableFullDuplex()
		// net/http cancels a request's context as soon as a read of its body returns an error. The
		// handler gets a context without this cancellation, because the text read before the error
		// must still be scored. After the end of the body, the context is canceled if the client
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

// closingWriter sets "Connection: close" on an answer that begins before the whole body has
// arrived. Otherwise the server would read the rest of the body as the next request.
type closingWriter struct {
	http.ResponseWriter
	body  *patientBody // the request's body
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
