package kernel

import (
	"fmt"
	"sync/atomic"
)

// Exec contains what operations need besides operands: an arithmetic, threads and scratch memory.
// Only one caller may use an Exec at a time. After the first operation of each kind, it allocates
// no memory.
type Exec struct {
	engine engine // The engine is the first field, so that its panels begin on a cache line.
	Vectors

	threads int
	room    []float32
	product product // The current product is a field, so that a call allocates nothing.

	pool *pool // nil if the Exec has only one thread
}

// Task is work that Parallel divides among threads. Parallel calls Do(w, i) for i = 0 .. n-1, in
// any order. w is a single-threaded Exec of the thread that runs Do, so Do may compute products
// with w.
type Task interface {
	Do(w *Exec, i int)
}

// NewExec returns an Exec in the default Arithmetic with up to maxThreads threads, of which one is
// the caller's. It starts maxThreads-1 goroutines, which Close stops.
func NewExec(maxThreads int) *Exec { return NewExecIn(maxThreads, Arithmetic{}) }

// NewExecIn returns an Exec with a given arithmetic. It panics if this machine does not support the
// arithmetic; see Arithmetic.Validate.
func NewExecIn(maxThreads int, a Arithmetic) *Exec {
	if maxThreads < 1 {
		panic(fmt.Sprintf("kernel: NewExec(%d): expected at least one thread", maxThreads))
	}
	if err := a.Validate(); err != nil {
		panic("kernel: NewExec: " + err.Error())
	}
	x := newThread(a)
	x.threads = maxThreads
	if maxThreads > 1 {
		x.pool = newPool(maxThreads, a)
	}
	return x
}

func newThread(a Arithmetic) *Exec {
	x := &Exec{threads: 1, Vectors: a.Vectors()}
	x.engine.set(a)
	return x
}

// Arithmetic returns the arithmetic of the Exec.
func (x *Exec) Arithmetic() Arithmetic { return x.engine.arithmetic }

// SetThreads sets the number of threads for later operations. n is from 1 to the maximum given to
// NewExec. Results never depend on n.
func (x *Exec) SetThreads(n int) {
	most := 1
	if x.pool != nil {
		most = len(x.pool.workers)
	}
	if n < 1 || n > most {
		panic(fmt.Sprintf("kernel: SetThreads(%d): expected 1 to %d threads", n, most))
	}
	x.threads = n
}

// Threads returns the number of threads that operations use.
func (x *Exec) Threads() int { return x.threads }

// Reserve gives every thread a buffer of at least n float32. Tasks get the buffer from Room.
// Reserve allocates only if the existing buffers are smaller.
func (x *Exec) Reserve(n int) {
	if len(x.room) < n {
		x.room = make([]float32, n)
	}
	if x.pool != nil {
		for i := range x.pool.workers {
			x.pool.workers[i].exec.Reserve(n)
		}
	}
}

// Room returns the buffer that Reserve allocated for this thread. The content is arbitrary, since
// earlier tasks may have used the buffer.
func (x *Exec) Room() []float32 { return x.room }

// Close stops the goroutines of the Exec. No operation may be running, and the Exec must not be
// used afterwards.
func (x *Exec) Close() {
	if x.pool != nil {
		x.pool.close()
		x.pool, x.threads = nil, 1
	}
}

// Parallel calls t.Do for i = 0 .. n-1 and returns when all calls are done. The calling thread also
// runs calls. Threads claim a few consecutive i at a time from a shared counter. With one thread,
// Parallel is a plain loop. A panic of Do on another thread ends the process.
func (x *Exec) Parallel(n int, t Task) {
	if x.threads == 1 || n <= 1 {
		w := x
		if x.threads > 1 {
			w = x.pool.workers[0].exec // A task expects a single-threaded Exec.
		}
		for i := range n {
			t.Do(w, i)
		}
		return
	}
	x.pool.run(x.threads, n, t)
}

// pool manages the threads of an Exec. The caller opens a job, and threads that wake in time join
// it. When all indexes are claimed, the caller closes the job. The caller then waits for the
// threads that joined, but not for threads that are still waking.
type pool struct {
	workers []worker

	task  Task
	n     int // number of task indexes, which are 0 .. n-1
	claim int

	// Padding against false sharing: threads write the fields below and read the fields above.
	_       [64]byte
	next    atomic.Int64
	_       [64]byte
	joined  atomic.Int64 // the number of joined threads, plus jobOpen while the job is open
	closing atomic.Bool
	done    gate
}

const jobOpen = 1 << 32

type worker struct {
	exec *Exec
	call gate
	_    [64]byte
}

func newPool(threads int, a Arithmetic) *pool {
	p := &pool{workers: make([]worker, threads)}
	p.done.init()
	for i := range p.workers {
		p.workers[i].exec = newThread(a)
		// The memory is allocated now: a worker may compute its first product in a later operation,
		// which should not allocate.
		p.workers[i].exec.engine.alloc()
		p.workers[i].call.init()
	}
	for i := 1; i < threads; i++ {
		go p.serve(&p.workers[i])
	}
	return p
}

func (p *pool) run(threads, n int, t Task) {
	p.task, p.n, p.claim = t, n, max(1, n/(8*threads))
	p.next.Store(0)
	p.joined.Add(jobOpen)
	defer p.finish() // After a panic too, finish waits until no thread runs the task.
	for i := 1; i < min(threads, n); i++ {
		p.workers[i].call.open()
	}
	p.work(p.workers[0].exec)
}

// finish closes the job and waits for the threads that joined it.
func (p *pool) finish() {
	if p.joined.Add(-jobOpen) != 0 {
		p.done.wait()
	}
	p.task = nil
}

func (p *pool) work(w *Exec) {
	for {
		hi := int(p.next.Add(int64(p.claim)))
		lo := hi - p.claim
		if lo >= p.n {
			return
		}
		for i := lo; i < min(hi, p.n); i++ {
			p.task.Do(w, i)
		}
	}
}

func (p *pool) serve(w *worker) {
	for {
		w.call.wait()
		if p.closing.Load() {
			return
		}
		if !p.join() {
			continue
		}
		p.work(w.exec)
		if p.joined.Add(-1) == 0 {
			p.done.open()
		}
	}
}

func (p *pool) join() bool {
	for {
		v := p.joined.Load()
		if v < jobOpen {
			return false
		}
		if p.joined.CompareAndSwap(v, v+1) {
			return true
		}
	}
}

func (p *pool) close() {
	p.closing.Store(true)
	for i := range p.workers {
		p.workers[i].call.open()
	}
}
