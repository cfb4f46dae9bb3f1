package scheduler

import (
	"context"
	"sync"
	"time"

	"github.com/lmserve/lmserve/internal/arithmetic/stream"
)

// Lease is a worker held for one chunk, or for a turn of a completion.
type Lease struct {
	scheduler *Scheduler
	job       Job

	mu struct {
		sync.Mutex
		slot     *slot // nil after the worker was taken back
		yielding bool  // the holder does something that needs no worker
		lost     bool  // the worker has served others since the last Yield began
	}
}

// Lease waits for a worker. The context ends the wait.
func (sc *Scheduler) Lease(ctx context.Context, j Job) (*Lease, error) {
	s, err := sc.acquire(ctx, j)
	if err != nil {
		return nil, err
	}
	l := &Lease{scheduler: sc, job: j}
	l.mu.slot = s
	return l, nil
}

// Worker returns the worker. If it was taken back, Worker waits for another, however long the queue
// is: the chunk was acknowledged and must be completed.
func (l *Lease) Worker() *stream.Worker {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.slot == nil {
		// This cannot fail: the context never ends.
		l.mu.slot, _ = l.scheduler.acquire(context.Background(), l.job)
	}
	return l.mu.slot.worker
}

// Yield runs f, which may wait for a client or a disk and must not use the worker. If f takes
// longer than patience, the worker goes to others, and Lost is true.
func (l *Lease) Yield(f func() error, patience time.Duration) error {
	l.setYielding(true)
	defer l.setYielding(false)
	t := time.AfterFunc(patience, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.mu.yielding && l.mu.slot != nil {
			l.giveBackLocked((*Scheduler).release)
			l.mu.lost = true
		}
	})
	defer t.Stop()
	return f()
}

func (l *Lease) setYielding(yielding bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.yielding = yielding; yielding {
		l.mu.lost = false
	}
}

// Lost reports whether the worker has served others since the last Yield began. Then the scores
// that it held are gone.
func (l *Lease) Lost() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.lost
}

// Release ends the lease.
func (l *Lease) Release() { l.end((*Scheduler).release) }

// ReleaseSoon ends the lease of a session that has more text. The session needs its next lease at
// once.
func (l *Lease) ReleaseSoon() { l.end((*Scheduler).releaseSoon) }

func (l *Lease) end(release func(*Scheduler, *slot)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.giveBackLocked(release)
}

func (l *Lease) giveBackLocked(release func(*Scheduler, *slot)) {
	if l.mu.slot != nil {
		release(l.scheduler, l.mu.slot)
		l.mu.slot = nil
	}
}
