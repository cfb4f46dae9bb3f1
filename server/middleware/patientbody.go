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

// Attend cancels the request's context if the client leaves before stop is called. A handler calls
// Attend before it waits for anything other than the request body. net/http detects that a client
// has left only after the end of the body, so Attend reads the body ahead into a buffer. Later
// reads return the buffered bytes first. The handler does not read the body before it calls stop.
// Attend has no effect on a wait shorter than limits.AttendAfter.
func Attend(ctx context.Context) (stop func()) {
	b, ok := ctx.Value(bodyKey{}).(*patientBody)
	if !ok { // net/http itself watches requests without a body
		return func() {}
	}
	return b.attend()
}

// attendUnread is Attend for a handler that never reads the request body. Bytes read ahead are
// dropped instead of buffered.
func attendUnread(ctx context.Context) (stop func()) {
	if b, ok := ctx.Value(bodyKey{}).(*patientBody); ok {
		b.mu.Lock()
		b.ahead.drops = true
		b.mu.Unlock()
	}
	return Attend(ctx)
}

// patientBody is a request body with a new deadline for each read. While a handler waits (see
// Attend), patientBody reads ahead.
type patientBody struct {
	io.ReadCloser
	control *http.ResponseController
	idle    time.Duration
	leave   func() // cancels the request's context
	// calls leave once net/http cancels its own context of the request
	follow func() (stop func() bool)

	mu      sync.Mutex
	changed sync.Cond
	ended   bool  // the end of the body has arrived
	stopped error // reason why reading was stopped, or nil
	waits   int   // calls of attend whose stop function was not called yet
	reading bool
	// error of reading ahead, io.EOF at the end of the body; reported after the buffered bytes
	failed   error
	ahead    ahead
	followed bool        // the reader has received the end of the body
	unfollow func() bool // result of follow if readAhead has called follow, else nil
}

// newPatientBody wraps a request's body. leave cancels the context that the handler gets.
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

// Read returns an error if stop was called, or if no byte arrives for the time idle.
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

// begin returns buffered bytes that were read ahead. If the buffer is empty, begin sets the
// deadline of the next read.
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
			// The deadline also applies to a read that readAhead has started.
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

// followLocked lets net/http's context cancel the request from now on. It is called once the reader
// has the whole body.
func (b *patientBody) followLocked() {
	if !b.followed {
		b.followed = true
		b.follow()
	}
}

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

// readAhead reads the body into a buffer while a handler waits (see Attend). It cancels the request
// if the client leaves during the wait. After limits.AheadBytesMax it reads slowly, and notices
// that the client has left only after the bytes in transit have arrived.
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
			break // the disk is full, or the connection supports no deadlines
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

// stop makes the current read and all later reads return the error reason, unless the body has
// ended.
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

// finish stops reading at the end of the request. It gives the rest of the body limits.LingerMax to
// arrive.
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

func (b *patientBody) whyStopped() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stopped
}

// endLocked removes the read deadline at the end of the body. From then on, net/http reads in the
// background to notice that the client leaves, and would treat a timeout as such a leave.
func (b *patientBody) endLocked() {
	if b.ended {
		return
	}
	b.ended = true
	_ = b.control.SetReadDeadline(time.Time{})
}

func (b *patientBody) hasEnded() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ended
}
