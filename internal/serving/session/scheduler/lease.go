package scheduler

import (
	"context"
	"sync"
	"time"

	"github.com/lmserve/lmserve/internal/arithmetic/stream"
)

// Lease is the right to use a worker for one chunk, or for one turn of a completion.
type Lease struct {
	scheduler *Scheduler
	job       Job

	mu struct {
		sync.Mutex
		slot     *slot // nil after Yield took the worker away
		yielding bool
		lost     bool
	}
}

// Lease waits for a worker until the context ends, and leases the worker to the caller.
func (sc *Scheduler) Lease(ctx context.Context, j Job) (*Lease, error) {
	s, err := sc.acquire(ctx, j)
	if err != nil {
		return nil, err
	}
	l := &Lease{scheduler: sc, job: j}
	l.mu.slot = s
	return l, nil
}

// Worker returns the leased worker. If the worker was taken away during Yield, Worker waits for
// another worker without a time limit. The chunk was already acknowledged, so it must be completed.
func (l *Lease) Worker() *stream.Worker {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.slot == nil {
		// This cannot fail, because the context never ends.
		l.mu.slot, _ = l.scheduler.acquire(context.Background(), l.job)
	}
	return l.mu.slot.worker
}

// Yield calls f, which may wait for a client or a disk. If f takes longer than patience, another
// job gets the worker, and Lost returns true. So f must not use the worker.
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

// Lost reports whether the worker was taken away during the last Yield, and the scores in it were
// lost.
func (l *Lease) Lost() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.lost
}

// Release returns the worker to the scheduler.
func (l *Lease) Release() { l.end((*Scheduler).release) }

// ReleaseSoon returns the worker of a session that will soon need a worker again. The scheduler may
// reserve this worker for the session.
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
