package middleware

import (
	"context"
	"net/http"
	"time"

	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/contract"
)

// Stall lets a request take as long as its body moves: every read of the body has a deadline of its
// own, so that a client that stalls holds up nothing but itself, and a stream that moves lives on.
// (The connection looks after the answer.) When draining is done the bodies that are coming in end.
//
// While a request waits, see Attend, its body is read ahead, and its client has no deadline.
//
// Stall also allows answers before the end of the body: events go out while text comes in, and an
// error does not wait for the rest of a body that nobody wants.
func Stall(
	bodyIdle time.Duration, draining context.Context,
) func(http.Handler) http.Handler {
	return wrap(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if !contract.HasBody(r) {
			next.ServeHTTP(w, r)
			return
		}
		// Writers that have no connection under them, such as those of tests, support neither
		// deadlines nor full duplex; then there is no client to stall either.
		control := http.NewResponseController(w)
		_ = control.EnableFullDuplex()
		// net/http cancels a request's context when reading its body fails. Here a failed read
		// is the reader's to deal with, in order: what was read before is still to be scored
		// and answered. Once the body has ended, the context tells as usual that the client has
		// left.
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

// closingWriter announces the end of the connection with an answer to a body that has not been read
// to its end: the next request could not be told from the rest of the body.
type closingWriter struct {
	http.ResponseWriter
	body  *patientBody // of the request
	began bool
}

// Unwrap lets http.ResponseController through.
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
