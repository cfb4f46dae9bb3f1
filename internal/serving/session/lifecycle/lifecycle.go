// Package lifecycle tracks the state of a server of sessions. It counts the operations in progress,
// so that a shutdown can wait for their end.
//
//	loading --Serve--> serving --Drain--> draining --the last operation ends--> drained
package lifecycle

import (
	"errors"
	"sync"
)

// These are errors of Enter and Check.
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

// Lifecycle is the state of one server: loading, serving, draining or drained. All methods are safe
// for concurrent use.
type Lifecycle struct {
	lease   func() error
	end     func()
	drained chan struct{}

	mu struct {
		sync.Mutex
		phase   phase
		working int
	}
}

// New returns a Lifecycle in the state loading. No operation may begin while parameter lease
// returns an error. The Lifecycle calls parameter end once, when the last operation after Drain has
// ended. Neither function may call the Lifecycle, because its mutex is locked during the call.
func New(lease func() error, end func()) *Lifecycle {
	return &Lifecycle{lease: lease, end: end, drained: make(chan struct{})}
}

// Serve changes the state from loading to serving.
func (l *Lifecycle) Serve() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.phase == loading {
		l.mu.phase = serving
	}
}

// Check returns nil if operations may begin and continue. Otherwise it returns ErrLoading,
// ErrDraining or the error of the lease.
func (l *Lifecycle) Check() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.checkLocked()
}

// Enter begins an operation, which the caller must end with Leave. If no operation may begin, Enter
// returns the error of Check.
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

// Drain makes Enter refuse new operations. It returns a channel that is closed when all operations
// in progress have ended.
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
