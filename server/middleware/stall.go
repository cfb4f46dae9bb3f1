package middleware

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/lmserve/lmserve/internal/session"
	"github.com/lmserve/lmserve/server/contract"
	"github.com/lmserve/lmserve/server/limits"
)

// Stall lets a request take as long as its body moves: every read of the body has a deadline of its
// own, so that a client that stalls holds up nothing but itself, and a stream that moves lives on.
// (The connection looks after the answer.) When draining is done the bodies that are coming in end.
//
// Stall also allows answers before the end of the body: events go out while text comes in, and an
// error does not wait for the rest of a body that nobody wants.
func Stall(
	bodyIdle time.Duration, draining context.Context,
) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
			in := &patientBody{ReadCloser: r.Body, control: control, idle: bodyIdle,
				onEnd: func() { context.AfterFunc(r.Context(), cancel) }}
			in.setDeadline(time.Now().Add(in.idle))
			stop := context.AfterFunc(draining, func() { in.stop(session.ErrDraining) })
			defer stop()
			out := &closingWriter{ResponseWriter: w, body: in}
			request := r.WithContext(ctx)
			request.Body = in
			next.ServeHTTP(out, request)
			in.setDeadline(time.Now().Add(limits.LingerMax))
		})
	}
}

// longAgo is a deadline that ends reads at once.
var longAgo = time.Unix(1, 0)

// patientBody gives every read of a body its own deadline.
type patientBody struct {
	io.ReadCloser
	control *http.ResponseController
	idle    time.Duration
	onEnd   func() // is called once, when the body was read to its end

	mu      sync.Mutex
	ended   bool  // the body was read to its end
	stopped error // why the body is read no further; nil: it is
}

// Read fails with the reason when the body was stopped, and with a timeout when no byte arrives for
// the idle time.
func (b *patientBody) Read(p []byte) (int, error) {
	if err := b.begin(); err != nil {
		return 0, err
	}
	n, err := b.ReadCloser.Read(p)
	switch {
	case errors.Is(err, io.EOF):
		b.end()
	case err != nil:
		err = cmp.Or(b.whyStopped(), err)
	}
	return n, err
}

// begin sets the deadline of a read, unless the body was stopped.
func (b *patientBody) begin() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.ended:
		return nil
	case b.stopped != nil:
		return b.stopped
	}
	_ = b.control.SetReadDeadline(time.Now().Add(b.idle))
	return nil
}

// stop ends the read under way, and all reads to come, unless the body has ended.
func (b *patientBody) stop(reason error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended || b.stopped != nil {
		return
	}
	b.stopped = reason
	_ = b.control.SetReadDeadline(longAgo)
}

// whyStopped is the reason that stop was called with.
func (b *patientBody) whyStopped() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stopped
}

// setDeadline bounds the reads of a body that has not ended.
func (b *patientBody) setDeadline(t time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ended {
		_ = b.control.SetReadDeadline(t)
	}
}

// end takes the deadline away for good. net/http goes on reading in the background to learn when
// the client leaves, and would take a deadline for the client's leaving.
func (b *patientBody) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return
	}
	b.ended = true
	_ = b.control.SetReadDeadline(time.Time{})
	b.onEnd()
}

// hasEnded reports whether the body was read to its end.
func (b *patientBody) hasEnded() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ended
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

// WriteHeader implements http.ResponseWriter.
func (w *closingWriter) WriteHeader(status int) {
	if !w.began && status >= http.StatusOK {
		w.began = true
		if !w.body.hasEnded() {
			w.Header().Set("Connection", "close")
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *closingWriter) Write(p []byte) (int, error) {
	if !w.began {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(p)
}
