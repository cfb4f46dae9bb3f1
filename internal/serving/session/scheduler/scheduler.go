// Package scheduler shares workers, one for each thread, among keys and the sessions of each key,
// one chunk at a time. A free worker goes to the key whose turn it is, and there to the session
// that came first. After each turn (turn.go), a session with a long upload queues behind the other
// sessions of its key. A key with many uploads queues behind every other key. The first chunk of a
// request does not wait for long uploads of the same key (line.go). Background jobs come last
// (behind.go).
//
// A single active session computes on all threads. If there are as many sessions as threads, each
// session computes on one thread. Results do not depend on the number of threads.
package scheduler

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
)

// Scheduler has the workers of one or more models. All methods are safe for concurrent use.
type Scheduler struct {
	// Live, if set, reports whether the model of a job stays in memory. If a model does not stay,
	// no worker is kept for it. Live is set before the first job.
	Live func(*model.Model) bool

	model   *model.Model // model of jobs that name none
	threads int

	mu struct {
		sync.Mutex
		all    []*slot // all slots, idle or not
		idle   []*slot // least recently used first
		line   line
		active int // sessions that hold a worker or wait for one
		behind behind
	}
}

// Job describes a request for a worker. It has only the session's id, because a reference would
// keep the session's memory alive.
type Job struct {
	Key     string       // the session's owner
	Session string       // the session's id
	Model   *model.Model // nil means the scheduler's model
	Chunk   int          // tokens: the size of a worker's segments
	Behind  bool         // background job, which runs only while no other job does
	First   bool         // the request has not had a worker
}

// goesOn reports whether a slot whose last job was had may still hold the segment of j.
func (j Job) goesOn(had Job) bool {
	return j.Session == had.Session && j.Model == had.Model && j.Chunk == had.Chunk
}

// slot is one of the workers that compute at the same time, and the last use of its working space.
// A slot has a worker for each model that it has served: their working space is large, and sessions
// of two models may take turns after every chunk.
type slot struct {
	worker *stream.Worker // worker for the job's model
	of     map[*model.Model]*stream.Worker
	job    Job
	turn   time.Time // when the turn of the job's session began
	// ends the keeping of the slot for the session's next chunk; nil if the slot is not kept
	kept *time.Timer
}

// New returns a scheduler with at most threads slots, each with at most that many threads. It makes
// slots and workers when they are first needed. m is the model of jobs that name none.
func New(m *model.Model, threads int) *Scheduler {
	return &Scheduler{model: m, threads: threads}
}

// Threads returns how many jobs can run at the same time.
func (sc *Scheduler) Threads() int { return sc.threads }

// acquire waits for a worker. The context ends the wait.
func (sc *Scheduler) acquire(ctx context.Context, j Job) (*slot, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	sc.mu.Lock()
	sc.mu.active++
	t := &ticket{job: j, ready: make(chan *slot, 1)}
	switch kept := sc.takeKeptLocked(j); {
	case kept != nil:
		defer sc.mu.Unlock()
		sc.mu.behind.ahead++
		return sc.prepareLocked(kept, j), nil
	case j.Behind:
		sc.mu.behind.join(t)
		sc.watchLocked()
	case sc.freeLocked(): // a slot is free, so at most background jobs are waiting
		defer sc.mu.Unlock()
		sc.mu.behind.ahead++
		sc.mu.line.grant(j.Key)
		return sc.beginLocked(sc.pickLocked(j), j), nil
	default:
		sc.mu.behind.ahead++
		sc.mu.line.join(t)
	}
	sc.mu.Unlock()

	select {
	case s := <-t.ready:
		return s, nil
	case <-ctx.Done():
		sc.leave(t)
		return nil, ctx.Err()
	}
}

// freeLocked reports whether a slot is idle, or one can be made.
func (sc *Scheduler) freeLocked() bool {
	return len(sc.mu.idle) > 0 || len(sc.mu.all) < sc.threads
}

// pickLocked removes an idle slot, or makes one. It prefers the slot that served the session last
// and may still hold its segment. Otherwise it prefers slots with segments of the right size, and
// of these the least recently used.
func (sc *Scheduler) pickLocked(j Job) *slot {
	for _, fits := range []func(*slot) bool{
		func(s *slot) bool { return j.goesOn(s.job) },
		func(s *slot) bool { return s.job.Model == j.Model && s.job.Chunk == j.Chunk },
		func(*slot) bool { return len(sc.mu.all) == sc.threads },
	} {
		if i := slices.IndexFunc(sc.mu.idle, fits); i >= 0 {
			s := sc.mu.idle[i]
			sc.mu.idle = slices.Delete(sc.mu.idle, i, i+1)
			return s
		}
	}
	s := &slot{of: map[*model.Model]*stream.Worker{}}
	sc.mu.all = append(sc.mu.all, s)
	return s
}

// beginLocked prepares a slot for a job, which begins a turn.
func (sc *Scheduler) beginLocked(s *slot, j Job) *slot {
	s.turn = time.Now()
	return sc.prepareLocked(s, j)
}

func (sc *Scheduler) prepareLocked(s *slot, j Job) *slot {
	m := cmp.Or(j.Model, sc.model)
	if s.of[m] == nil {
		s.of[m] = stream.NewWorker(m, sc.threads)
	}
	s.job, s.worker = j, s.of[m]
	sharing := sc.mu.active
	if !j.Behind {
		sharing = sc.mu.behind.ahead
	}
	s.worker.Exec.SetThreads(max(1, sc.threads/max(1, sharing)))
	return s
}

// leave removes a ticket from the queue, or releases the worker that the ticket got meanwhile.
func (sc *Scheduler) leave(t *ticket) {
	sc.mu.Lock()
	line := &sc.mu.line
	if t.job.Behind {
		line = &sc.mu.behind.line
	}
	waited := line.leave(t)
	if waited {
		sc.endLocked(t.job)
	}
	sc.mu.Unlock()
	if !waited {
		sc.release(<-t.ready)
	}
}

// release returns a worker.
func (sc *Scheduler) release(s *slot) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	sc.endLocked(s.job)
	sc.passLocked(s)
}

// passLocked gives a free slot to the next job.
func (sc *Scheduler) passLocked(s *slot) {
	if m := s.job.Model; m != nil && sc.Live != nil && !sc.Live(m) {
		s.forget(m)
	}
	t := sc.mu.behind.next()
	if t == nil {
		t = sc.mu.line.next()
	}
	if t == nil {
		sc.mu.idle = append(sc.mu.idle, s)
		sc.watchLocked()
		return
	}
	t.ready <- sc.beginLocked(s, t.job)
}

// endLocked records that a job neither holds a worker nor waits for one.
func (sc *Scheduler) endLocked(j Job) {
	sc.mu.active--
	if !j.Behind {
		sc.mu.behind.ahead--
		sc.mu.behind.rests = time.Now()
	}
}

// Busy reports whether as many jobs wait for a worker as there are workers, not counting background
// jobs.
func (sc *Scheduler) Busy() bool {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	return sc.mu.line.length >= sc.threads
}

// Close ends the workers' threads. No job may hold a worker.
func (sc *Scheduler) Close() {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	for _, s := range sc.mu.all {
		if s.endKeepingLocked() {
			sc.mu.idle = append(sc.mu.idle, s)
		}
	}
	for _, s := range sc.mu.idle {
		for _, w := range s.of {
			w.Close()
		}
	}
	sc.mu.all = slices.DeleteFunc(sc.mu.all, func(s *slot) bool {
		return slices.Contains(sc.mu.idle, s)
	})
	sc.mu.idle = nil
}

// Forget ends the workers of a model that is no longer Live, so that nothing here keeps it in
// memory. A worker in use ends with its job.
func (sc *Scheduler) Forget(m *model.Model) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	for _, s := range sc.mu.all {
		if s.job.Model != m || slices.Contains(sc.mu.idle, s) {
			s.forget(m)
		}
	}
}

// forget ends the worker of a model, which no job holds.
func (s *slot) forget(m *model.Model) {
	if w := s.of[m]; w != nil {
		w.Close()
		delete(s.of, m)
	}
	if s.job.Model == m {
		s.job, s.worker = Job{}, nil
	}
}
