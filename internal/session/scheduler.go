package session

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/lmserve/lmserve/internal/model"
	"github.com/lmserve/lmserve/internal/stream"
)

// scheduler shares workers among sessions, one chunk at a time. There are as many as threads. A session that finds none free waits in line;
// a worker that comes free goes to the head of the line, so a session with a long upload is behind everybody else again after each chunk.
//
// Threads follow the number of active sessions, those that hold a worker or wait for one: one session alone computes on all threads, and
// from as many sessions as threads on each computes on one. Results do not depend on it.
type scheduler struct {
	model   *model.Model
	threads int

	mu     sync.Mutex
	made   int     // workers
	idle   []*slot // the least recently used first
	line   []*ticket
	active int
}

// slot is a worker and what its working space was last used for. It names the session by its id: holding the session would keep its memory
// alive.
type slot struct {
	worker *stream.Worker
	job    job
}

// job is what a worker is wanted for.
type job struct {
	session string // id
	chunk   int    // tokens: the size of a worker's segments
}

// ticket is a place in the line.
type ticket struct {
	job   job
	ready chan *slot // has room for the one slot it will get
}

func newScheduler(m *model.Model, threads int) *scheduler {
	return &scheduler{model: m, threads: threads}
}

// acquire waits for a worker. The context ends the wait.
func (sc *scheduler) acquire(ctx context.Context, j job) (*slot, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	sc.mu.Lock()
	sc.active++
	if len(sc.idle) > 0 || sc.made < sc.threads { // then nobody waits
		defer sc.mu.Unlock()
		return sc.grant(sc.take(j), j), nil
	}
	t := &ticket{job: j, ready: make(chan *slot, 1)}
	sc.line = append(sc.line, t)
	sc.mu.Unlock()

	select {
	case s := <-t.ready:
		return s, nil
	case <-ctx.Done():
		sc.leave(t)
		return nil, ctx.Err()
	}
}

// take removes an idle worker, or makes one. The best is the one that served the session last and may still hold its segment, then one whose
// segments have the right size, the least recently used of these.
func (sc *scheduler) take(j job) *slot {
	for _, fits := range []func(*slot) bool{
		func(s *slot) bool { return s.job == j },
		func(s *slot) bool { return s.job.chunk == j.chunk },
		func(*slot) bool { return sc.made == sc.threads },
	} {
		if i := slices.IndexFunc(sc.idle, fits); i >= 0 {
			s := sc.idle[i]
			sc.idle = slices.Delete(sc.idle, i, i+1)
			return s
		}
	}
	sc.made++
	return &slot{worker: stream.NewWorker(sc.model, sc.threads)}
}

// grant prepares a worker for a job.
func (sc *scheduler) grant(s *slot, j job) *slot {
	s.job = j
	s.worker.Exec.SetThreads(max(1, sc.threads/sc.active))
	return s
}

// leave gives up a place in the line, or the worker it has got meanwhile.
func (sc *scheduler) leave(t *ticket) {
	sc.mu.Lock()
	i := slices.Index(sc.line, t)
	if i >= 0 {
		sc.line = slices.Delete(sc.line, i, i+1)
		sc.active--
	}
	sc.mu.Unlock()
	if i < 0 {
		sc.release(<-t.ready)
	}
}

// release gives a worker back.
func (sc *scheduler) release(s *slot) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	sc.active--
	if len(sc.line) == 0 {
		sc.idle = append(sc.idle, s)
		return
	}
	t := sc.line[0]
	sc.line = slices.Delete(sc.line, 0, 1)
	t.ready <- sc.grant(s, t.job)
}

// close ends the workers' threads. All workers must be idle.
func (sc *scheduler) close() {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	for _, s := range sc.idle {
		s.worker.Close()
	}
	sc.made -= len(sc.idle)
	sc.idle = nil
}

// lease is a worker held for one chunk, or a slice of a completion.
type lease struct {
	scheduler *scheduler
	job       job

	mu   sync.Mutex
	slot *slot // nil while the worker is given back
	lent bool  // the holder is at something that needs no worker
	lost bool  // the worker has served others since it was lent: what it held of the holder's is gone
}

func (sc *scheduler) lease(ctx context.Context, j job) (*lease, error) {
	s, err := sc.acquire(ctx, j)
	if err != nil {
		return nil, err
	}
	return &lease{scheduler: sc, job: j, slot: s}, nil
}

// worker is the worker held. If it was given back, worker waits for another, however long the line is: its holder has a chunk to finish that
// was acknowledged.
func (l *lease) worker() *stream.Worker {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.slot == nil {
		l.slot, _ = l.scheduler.acquire(context.Background(), l.job) // cannot fail: this context never ends
	}
	return l.slot.worker
}

// lend runs f, which may wait for a client or a disk and must not use the worker. If f takes longer than patience, the worker goes to others, and lost
// is set.
func (l *lease) lend(f func() error, patience time.Duration) error {
	l.setLent(true)
	defer l.setLent(false)
	t := time.AfterFunc(patience, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.lent && l.slot != nil {
			l.giveBack()
			l.lost = true
		}
	})
	defer t.Stop()
	return f()
}

func (l *lease) setLent(lent bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lent = lent; lent {
		l.lost = false
	}
}

// wasLost tells whether the worker served others while it was lent last.
func (l *lease) wasLost() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

// release ends the lease.
func (l *lease) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.giveBack()
}

func (l *lease) giveBack() {
	if l.slot != nil {
		l.scheduler.release(l.slot)
		l.slot = nil
	}
}
