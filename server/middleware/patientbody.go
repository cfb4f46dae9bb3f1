package middleware

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/lmserve/lmserve/server/limits"
)

var (
	// longAgo is a deadline that ends pending reads at once.
	longAgo = time.Unix(1, 0)

	errFinished = errors.New("server: the request of this body has ended")
)

type bodyKey struct{}

// Attend cancels a request's context when its client leaves, until stop is called. A handler calls
// it before waiting for something other than the body. net/http notices that a client has left only
// after the end of the body, so Attend reads the body ahead. Later reads return these bytes first;
// nobody reads the body before stop is called. A wait shorter than limits.AttendAfter is not
// attended.
func Attend(ctx context.Context) (stop func()) {
	b, ok := ctx.Value(bodyKey{}).(*patientBody)
	if !ok { // net/http watches requests without a body
		return func() {}
	}
	return b.attend()
}

// patientBody gives every read of a body its own deadline, and reads ahead while attended.
type patientBody struct {
	io.ReadCloser
	control *http.ResponseController
	idle    time.Duration
	leave   func()                    // cancels the request's context
	follow  func() (stop func() bool) // cancels it together with net/http's context of the request

	mu       sync.Mutex
	changed  sync.Cond   // signals that reading ahead has stopped
	ended    bool        // the end of the body has arrived
	stopped  error       // why reading was stopped; nil if it was not
	waits    int         // calls of attend that were not stopped yet
	reading  bool        // a read ahead is in progress
	failed   error       // error of a read ahead, io.EOF at the end; reported after the bytes read
	ahead    ahead       // bytes read ahead
	followed bool        // the reader has reached the end
	unfollow func() bool // undoes the call of follow by readAhead; nil without a call
}

// newPatientBody wraps a request's body. leave cancels the context that handlers see.
func newPatientBody(
	r *http.Request, control *http.ResponseController, idle time.Duration, leave func(),
) *patientBody {
	b := &patientBody{
		ReadCloser: r.Body, control: control, idle: idle, leave: leave,
		follow: func() func() bool { return context.AfterFunc(r.Context(), leave) },
	}
	b.changed.L = &b.mu
	return b
}

// Read fails with the reason once the body was stopped, or with a timeout if no byte arrives for
// the idle time.
func (b *patientBody) Read(p []byte) (int, error) {
	if n, err := b.begin(p); n > 0 || err != nil {
		return n, err
	}
	n, err := b.ReadCloser.Read(p)
	switch {
	case errors.Is(err, io.EOF):
		b.mu.Lock()
		defer b.mu.Unlock()
		b.endLocked()
		b.followLocked()
	case err != nil:
		err = cmp.Or(b.whyStopped(), err)
	}
	return n, err
}

// begin returns bytes read ahead. If there are none, it sets the deadline for the next read.
func (b *patientBody) begin(p []byte) (n int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.followed {
		return 0, io.EOF
	}
	for b.stopped == nil {
		if n, err = b.ahead.take(p); n > 0 || err != nil {
			return n, err
		}
		if !b.ended {
			// The deadline also applies to a read ahead that is in progress.
			_ = b.control.SetReadDeadline(time.Now().Add(b.idle))
		}
		if !b.reading {
			break
		}
		b.changed.Wait()
	}
	if b.failed == io.EOF && b.stopped == nil {
		b.followLocked()
	}
	return 0, cmp.Or(b.stopped, b.failed)
}

// followLocked cancels the request when its client leaves, now that the reader has the whole body.
func (b *patientBody) followLocked() {
	if !b.followed {
		b.followed = true
		b.follow()
	}
}

// attend implements Attend.
func (b *patientBody) attend() (stop func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.followed {
		return func() {}
	}
	b.waits++
	late := time.AfterFunc(limits.AttendAfter, b.readAhead)
	return func() {
		late.Stop()
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.waits--; b.waits == 0 && b.unfollow != nil {
			b.unfollow()
			b.unfollow = nil
		}
	}
}

// readAhead reads the body while a handler waits (see Attend). It cancels the request if the client
// leaves during the wait. Beyond limits.AheadBytesMax it reads slowly. It then notices that the
// client has left only after the bytes in transit have arrived.
func (b *patientBody) readAhead() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reading {
		return
	}
	b.reading = true
	for b.waits > 0 && b.failed == nil && b.stopped == nil {
		p := b.ahead.room()
		if p == nil || b.control.SetReadDeadline(time.Time{}) != nil {
			break // the disk is full, or a read cannot be ended
		}
		b.mu.Unlock()
		n, err := b.ReadCloser.Read(p)
		b.mu.Lock()
		b.ahead.got(n)
		if err == io.EOF {
			b.endLocked()
		}
		if b.failed = err; err != nil && err != io.EOF {
			b.failed = cmp.Or(b.stopped, err)
		}
		if err == nil && b.ahead.in >= limits.AheadBytesMax {
			time.AfterFunc(limits.AheadPause, b.readAhead)
			break
		}
	}
	b.reading = false
	b.changed.Broadcast()
	switch {
	case b.waits == 0 || b.failed == nil || b.stopped != nil:
	case b.failed != io.EOF:
		b.leave()
	case b.unfollow == nil:
		b.unfollow = b.follow()
	}
}

// stop ends the current read and all later ones, unless the body has ended.
func (b *patientBody) stop(reason error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopLocked(reason)
}

func (b *patientBody) stopLocked(reason error) {
	if b.ended || b.stopped != nil {
		return
	}
	b.stopped = reason
	_ = b.control.SetReadDeadline(longAgo)
}

// finish stops reading for the request. The unread rest of the body may arrive for
// limits.LingerMax.
func (b *patientBody) finish() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waits = 0
	if b.reading {
		b.stopLocked(errFinished)
	}
	for b.reading {
		b.changed.Wait()
	}
	b.ahead.close()
	if !b.ended {
		_ = b.control.SetReadDeadline(time.Now().Add(limits.LingerMax))
	}
}

// whyStopped returns the reason passed to stop.
func (b *patientBody) whyStopped() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stopped
}

// endLocked removes the deadline for good. net/http keeps reading in the background to notice that
// the client leaves, and would mistake a timeout for that.
func (b *patientBody) endLocked() {
	if b.ended {
		return
	}
	b.ended = true
	_ = b.control.SetReadDeadline(time.Time{})
}

// hasEnded reports whether the whole body has arrived.
func (b *patientBody) hasEnded() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ended
}
