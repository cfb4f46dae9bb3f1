// Package lifecycle is the state of a server of sessions. It counts the operations under way, so
// that a drain knows when they have ended.
//
//	loading --Serve--> serving --Drain--> draining --the last operation ends--> drained
package lifecycle

import (
	"errors"
	"sync"
)

// Errors of Enter.
var (
	ErrLoading  = errors.New("session: stored sessions are still being loaded")
	ErrDraining = errors.New("session: the server is shutting down and accepts no more requests")
)

type phase int

const (
	loading phase = iota
	serving
	draining
)

// Lifecycle is the state of one server. All methods are safe for concurrent use.
type Lifecycle struct {
	lease   func() error
	end     func()
	drained chan struct{}

	mu struct {
		sync.Mutex
		phase   phase
		working int // operations under way
	}
}

// New returns a Lifecycle that is loading. lease returns an error while no operation may begin for
// a reason that may pass, such as a lapsed lease; otherwise nil. end is called once, after the last
// operation of a drain has ended. lease and end must not call the Lifecycle.
func New(lease func() error, end func()) *Lifecycle {
	return &Lifecycle{lease: lease, end: end, drained: make(chan struct{})}
}

// Serve ends the loading.
func (l *Lifecycle) Serve() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.phase == loading {
		l.mu.phase = serving
	}
}

// Check returns why no operation may begin or continue: ErrLoading, ErrDraining, or the lease's
// error. It returns nil if operations may begin.
func (l *Lifecycle) Check() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.checkLocked()
}

// Enter begins an operation, which a drain waits for. It returns the error of Check.
func (l *Lifecycle) Enter() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.checkLocked(); err != nil {
		return err
	}
	l.mu.working++
	return nil
}

// Leave ends an operation.
func (l *Lifecycle) Leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.working--
	l.endLocked()
}

// Drain refuses operations from now on, and returns a channel that is closed when those under way
// have ended.
func (l *Lifecycle) Drain() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.phase != draining {
		l.mu.phase = draining
		l.endLocked()
	}
	return l.drained
}

func (l *Lifecycle) checkLocked() error {
	switch l.mu.phase {
	case loading:
		return ErrLoading
	case draining:
		return ErrDraining
	}
	return l.lease()
}

func (l *Lifecycle) endLocked() {
	if l.mu.phase == draining && l.mu.working == 0 {
		l.end()
		close(l.drained)
	}
}
