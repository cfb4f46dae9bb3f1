// Package scheduler shares workers fairly among API keys, and among the sessions of each key. There
// is one worker per thread, and a job gets a worker for one chunk. A free worker goes to the key
// that has waited longest, and to the oldest job of this key.
//
// A session with a long upload keeps a worker for several chunks, called a turn (turn.go). After
// each turn, the session queues behind all other keys and the other sessions of its key. The first
// chunk of a request does not wait for long uploads of the same key (line.go). Background jobs come
// last (behind.go).
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

// Scheduler manages the workers of one or more models. All methods are safe for concurrent use.
type Scheduler struct {
	// Live reports whether a model stays in memory after a job. If not, no worker is kept for the
	// model. A nil Live means that every model stays. Live must be set before the first job.
	Live func(*model.Model) bool

	model   *model.Model
	threads int

	mu struct {
		sync.Mutex
		all    []*slot
		idle   []*slot // The least recently used slot comes first.
		line   line
		active int
		behind behind
	}
}

// Job describes a request for a worker. It contains only the session's id, because a pointer would
// keep the session in memory.
type Job struct {
	Key     string
	Session string
	Model   *model.Model // nil means the scheduler's default model
	Chunk   int          // tokens in a chunk
	// whether this is a background job, which may run only when other sessions are idle or after
	// the wait starving
	Behind bool
	First  bool
}

// goesOn reports whether job j continues the session of an earlier job. If so, job j can reuse what
// the earlier job has computed in its slot.
func (j Job) goesOn(had Job) bool {
	return j.Session == had.Session && j.Model == had.Model && j.Chunk == had.Chunk
}

// slot runs one job at a time. It keeps a worker for each model that it has served, because making
// a worker is slow. Sessions of two models may alternate after every chunk.
type slot struct {
	worker *stream.Worker // worker for the model of the field job
	of     map[*model.Model]*stream.Worker
	job    Job
	turn   time.Time
	// kept is set while the slot is reserved for the session's next chunk. The timer ends the
	// reservation.
	kept *time.Timer
}

// New returns a scheduler that runs up to n jobs at the same time, where n is the parameter
// threads. Each job may use up to n threads. Slots and workers are made when they are first needed.
// Parameter m is the model of jobs that name no model.
func New(m *model.Model, threads int) *Scheduler {
	return &Scheduler{model: m, threads: threads}
}

// Threads returns how many jobs can run at the same time.
func (sc *Scheduler) Threads() int { return sc.threads }

func (sc *Scheduler) acquire(ctx context.Context, j Job) (*slot, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	sc.mu.Lock()
	sc.mu.active++
	if !j.Behind {
		sc.mu.behind.ahead++
	}
	t := &ticket{job: j, ready: make(chan *slot, 1)}
	switch kept := sc.takeKeptLocked(j); {
	case kept != nil:
		defer sc.mu.Unlock()
		return sc.prepareLocked(kept, j), nil
	case j.Behind:
		sc.mu.behind.join(t)
		sc.watchLocked()
	case sc.freeLocked(): // If a slot is free, no foreground job waits.
		defer sc.mu.Unlock()
		sc.mu.line.grant(j.Key)
		return sc.beginLocked(sc.pickLocked(j), j), nil
	default:
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

func (sc *Scheduler) freeLocked() bool {
	return len(sc.mu.idle) > 0 || len(sc.mu.all) < sc.threads
}

// pickLocked removes a slot from the idle slots, or makes one. It prefers the slot whose last job
// the new job continues, then a slot with the same model and chunk size. Of several such slots, it
// takes the least recently used.
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

// leave removes a ticket from the queue. If the ticket has already got a worker, leave releases the
// worker.
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

func (sc *Scheduler) release(s *slot) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	sc.endLocked(s.job)
	sc.passLocked(s)
}

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

func (sc *Scheduler) endLocked(j Job) {
	sc.mu.active--
	if !j.Behind {
		sc.mu.behind.ahead--
		sc.mu.behind.rests = time.Now()
	}
}

// Busy reports whether the queue has at least one job per worker. Background jobs do not count.
func (sc *Scheduler) Busy() bool {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	return sc.mu.line.length >= sc.threads
}

// Close ends the threads of all workers. No job may be running.
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

// Forget ends the workers of a model that is no longer live, so that they do not keep the model in
// memory. A worker that a job uses ends after the job.
func (sc *Scheduler) Forget(m *model.Model) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	for _, s := range sc.mu.all {
		if s.job.Model != m || slices.Contains(sc.mu.idle, s) {
			s.forget(m)
		}
	}
}

// forget ends the slot's worker for a model. No job may use this worker.
func (s *slot) forget(m *model.Model) {
	if w := s.of[m]; w != nil {
		w.Close()
		delete(s.of, m)
	}
	if s.job.Model == m {
		s.job, s.worker = Job{}, nil
	}
}
