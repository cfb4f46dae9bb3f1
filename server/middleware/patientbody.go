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
	// longAgo is a deadline that ends reads at once.
	longAgo = time.Unix(1, 0)

	errFinished = errors.New("server: the request of the body is finished")
)

type bodyKey struct{}

// Attend ends the context of a request when its client leaves, until stop is called. A handler that
// waits for something else than the body calls it: net/http notices that a client has left only
// behind the end of the body, so the body is read ahead meanwhile. Whoever reads the body
// afterwards reads what came. Nobody reads it before stop is called. A short wait is not attended.
func Attend(ctx context.Context) (stop func()) {
	b, ok := ctx.Value(bodyKey{}).(*patientBody)
	if !ok { // net/http looks after requests without a body
		return func() {}
	}
	return b.attend()
}

// patientBody gives every read of a body its own deadline, and reads ahead while it is attended.
type patientBody struct {
	io.ReadCloser
	control *http.ResponseController
	idle    time.Duration
	leave   func()                    // ends the request's context
	follow  func() (stop func() bool) // has the request's context end with that of net/http

	mu       sync.Mutex
	changed  sync.Cond   // reading has changed
	ended    bool        // the body has come in to its end
	stopped  error       // why the body is read no further; nil: it is
	waits    int         // calls of attend that have not stopped
	reading  bool        // a read ahead is under way
	failed   error       // of a read ahead, io.EOF at the end; what was read comes first
	ahead    ahead       // what was read ahead
	followed bool        // the reader has met the end of the body
	unfollow func() bool // of a follow while the body is attended; nil: none
}

// newPatientBody makes a patientBody of a request's body. leave ends the context of the request
// that handlers see.
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

// Read fails with the reason when the body was stopped, and with a timeout when no byte arrives for
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

// begin reads what was read ahead, and sets the deadline of a read where there is nothing.
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
			_ = b.control.SetReadDeadline(time.Now().Add(b.idle)) // also of a read ahead under way
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

// followLocked has the request end when its client leaves, now that the reader has all of the body.
func (b *patientBody) followLocked() {
	if !b.followed {
		b.followed = true
		b.follow()
	}
}

// attend is Attend.
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

// readAhead reads the body until it is attended no more, and ends the request if its client leaves
// before that. Of a long body it reads the rest slowly: a client that has left is noticed when what
// is on its way has come.
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
			break // the disk is full, or a read under way could not be ended
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

// stop ends the read under way, and all reads to come, unless the body has ended.
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

// finish ends what the body does for its request. What is left of the body may linger.
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

// whyStopped is the reason that stop was called with.
func (b *patientBody) whyStopped() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stopped
}

// endLocked takes the deadline away for good. net/http goes on reading in the background to learn
// when the client leaves, and would take a deadline for the client's leaving.
func (b *patientBody) endLocked() {
	if b.ended {
		return
	}
	b.ended = true
	_ = b.control.SetReadDeadline(time.Time{})
}

// hasEnded reports whether the body has come in to its end.
func (b *patientBody) hasEnded() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ended
}
