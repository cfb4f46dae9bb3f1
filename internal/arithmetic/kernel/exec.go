package kernel

import (
	"fmt"
	"sync/atomic"
)

// Exec holds what an operation needs besides its operands: an arithmetic, threads and scratch.
// One Exec serves one caller at a time. It allocates nothing once every kind of operation has
// run.
type Exec struct {
	engine engine // the first field, so that its panels begin on a cache line, as large objects do
	Vectors

	threads int
	room    []float32 // buffer for the caller's tasks, see Reserve
	product product   // operands of the present product; a field, so that calls do not allocate

	pool *pool // nil if the Exec has only one thread
}

// Task is work that Parallel divides among threads. Parallel calls Do(w, i) for i = 0 .. n-1, in
// any order. w is a single-threaded Exec of the goroutine that runs Do; Do may call products on it.
type Task interface {
	Do(w *Exec, i int)
}

// NewExec starts an Exec of up to maxThreads threads, including the caller, in the zero
// Arithmetic. It parks maxThreads-1 goroutines, which Close ends.
func NewExec(maxThreads int) *Exec { return NewExecIn(maxThreads, Arithmetic{}) }

// NewExecIn starts an Exec in a given arithmetic. It panics if this machine lacks the arithmetic:
// see Arithmetic.Validate.
func NewExecIn(maxThreads int, a Arithmetic) *Exec {
	if maxThreads < 1 {
		panic(fmt.Sprintf("kernel: NewExec(%d): at least one thread", maxThreads))
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

// newThread returns an Exec of the calling thread alone.
func newThread(a Arithmetic) *Exec {
	x := &Exec{threads: 1, Vectors: a.Vectors()}
	x.engine.set(a)
	return x
}

// Arithmetic returns the arithmetic of the Exec.
func (x *Exec) Arithmetic() Arithmetic { return x.engine.arithmetic }

// SetThreads sets the number of threads of later operations, from 1 to NewExec's maximum. Results
// never depend on it.
func (x *Exec) SetThreads(n int) {
	most := 1
	if x.pool != nil {
		most = len(x.pool.workers)
	}
	if n < 1 || n > most {
		panic(fmt.Sprintf("kernel: SetThreads(%d): this Exec has 1 to %d", n, most))
	}
	x.threads = n
}

// Threads returns the number of threads of the next operation.
func (x *Exec) Threads() int { return x.threads }

// Reserve gives every thread a buffer of n float32, which tasks get from Room. It allocates only
// if the present buffers are smaller.
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

// Room returns the buffer of this thread. The buffer still holds what the last task left in it.
func (x *Exec) Room() []float32 { return x.room }

// Close ends the goroutines. The Exec must be idle, and must not be used afterwards.
func (x *Exec) Close() {
	if x.pool != nil {
		x.pool.close()
		x.pool, x.threads = nil, 1
	}
}

// Parallel runs t.Do for i = 0 .. n-1 and returns when all are done. The caller takes part. Threads
// claim a few consecutive i at a time from a shared counter. With one thread Parallel is a plain
// loop. A panic in Do on another thread ends the process.
func (x *Exec) Parallel(n int, t Task) {
	if x.threads == 1 || n <= 1 {
		w := x
		if x.threads > 1 {
			w = x.pool.workers[0].exec // a Task may assume that its Exec has a single thread
		}
		for i := range n {
			t.Do(w, i)
		}
		return
	}
	x.pool.run(x.threads, n, t)
}

// pool holds the threads of an Exec. The caller opens a job, and threads that wake in time join it.
// When nothing is left to claim, the caller closes the job. It then waits for the threads that have
// joined, but not for threads that are still waking.
type pool struct {
	workers []worker // workers[0] belongs to the caller

	task  Task
	n     int // the indexes of the tasks are 0 .. n-1
	claim int // number of indexes that a thread claims at once

	_       [64]byte // separates fields that threads only read from fields that they write
	next    atomic.Int64
	_       [64]byte
	joined  atomic.Int64 // number of threads at work on the job, plus jobOpen while more may join
	closing atomic.Bool
	done    gate // opened by the last thread to leave a closed job
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
		p.workers[i].exec.engine.alloc() // any worker may compute the first product
		p.workers[i].call.init()
	}
	for i := 1; i < threads; i++ {
		go p.serve(&p.workers[i])
	}
	return p
}

// run runs one job on the caller and up to threads-1 other threads.
func (p *pool) run(threads, n int, t Task) {
	p.task, p.n, p.claim = t, n, max(1, n/(8*threads))
	p.next.Store(0)
	p.joined.Add(jobOpen)
	defer p.finish() // also after a panic in Do, so that no thread still works on the task
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

// serve is the loop of a thread.
func (p *pool) serve(w *worker) {
	for {
		w.call.wait()
		if p.closing.Load() {
			return
		}
		if !p.join() {
			continue // too late: the other threads have done all the work
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
