package bench

import (
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/klauspost/cpuid/v2"

	"github.com/lmserve/lmserve/internal/kernel"
)

// rates are the machine's limits with some number of threads, each per second.
type rates struct {
	flops float64 // operations in registers; a multiply-add is two
	// streams are bytes of y += a x over arrays far larger than the caches: two are read, one is
	// written in place.
	streams float64
	reads   float64 // bytes of the scalar product of two such arrays
}

const (
	rateSamples = 5
	ratePieces  = 32      // pieces of a sample, for each thread
	peakSeconds = 1e-3    // length of a sample of the peak
	streamPiece = 1 << 15 // elements of each array that a piece passes over

	arrayLeast  = 64 << 20 // least bytes of an array
	arrayMost   = 1 << 30
	cachesLarge = 2 // an array is at least so many times as large as the last cache
)

// memory is two arrays far larger than any cache.
type memory struct{ y, x []float32 }

func newMemory() memory {
	n := min(max(arrayLeast, cachesLarge*cpuid.CPU.Cache.L3), arrayMost) / 4
	m := memory{y: make([]float32, n), x: make([]float32, n)}
	for i := range m.y { // pages never written would share one page of zeros
		m.y[i], m.x[i] = 1, 1
	}
	return m
}

// piece is the i'th piece of both arrays, which begin anew where they end.
func (m memory) piece(i int) (y, x []float32) {
	at := i % (len(m.y) / streamPiece) * streamPiece
	return m.y[at : at+streamPiece], m.x[at : at+streamPiece]
}

// rates measures the limits.
func (b *bench) rates(threads int) rates {
	b.x.SetThreads(threads)
	r := rates{flops: b.peak(threads), streams: b.stream(threads, 3, b.addTo), reads: b.stream(threads, 2, b.dot)}
	b.seen[threads] = append(b.seen[threads], r)
	return r
}

// peak is the operations a second of all threads together.
func (b *bench) peak(threads int) float64 {
	if b.rounds == 0 {
		const rounds = 1 << 12
		once := seconds(func() { b.x.PeakRounds(rounds) })
		b.rounds = max(1, int(rounds*peakSeconds/ratePieces/once))
	}
	return b.rate(threads, float64(b.x.PeakRounds(1))*float64(b.rounds), func(int) { b.x.PeakRounds(b.rounds) })
}

// stream returns the bytes per second of passes over the arrays that move so many elements at each
// place. A pass goes on where the last one ended, so that it finds nothing in a cache.
func (b *bench) stream(threads, elements int, pass func(y, x []float32)) float64 {
	first := b.pieces
	b.pieces += rateSamples * ratePieces * threads
	return b.rate(threads, float64(4*elements*streamPiece), func(i int) { pass(b.memory.piece(first + i)) })
}

// rate returns what so many threads together do per second, the median of a few samples. do works
// on the i'th piece, which counts as amount.
func (b *bench) rate(threads int, amount float64, do func(i int)) float64 {
	var samples [rateSamples]float64
	pieces := ratePieces * threads
	for k := range samples {
		r := race{n: pieces, do: func(i int) { do(k*pieces + i) }, ends: make([]time.Time, threads)}
		r.missing.Store(int64(threads))
		b.x.Parallel(threads, &r)
		samples[k] = amount * float64(pieces) / r.seconds()
	}
	return median(samples[:])
}

// race is a number of pieces of work for threads that begin together, for waking a
// thread takes a good part of a sample. As a kernel.Task it has an index a thread.
type race struct {
	n       int
	do      func(i int)
	missing atomic.Int64 // threads not there yet
	next    atomic.Int64 // index of the next piece
	begin   time.Time
	ends    []time.Time // of each thread
}

// Do waits for the other threads and takes pieces as long as there are any.
func (r *race) Do(_ *kernel.Exec, thread int) {
	if r.missing.Add(-1) == 0 {
		r.begin = time.Now()
	}
	for r.missing.Load() > 0 {
		runtime.Gosched()
	}
	for i := int(r.next.Add(1)) - 1; i < r.n; i = int(r.next.Add(1)) - 1 {
		r.do(i)
	}
	r.ends[thread] = time.Now()
}

// seconds is the time from the beginning to the last end.
func (r *race) seconds() float64 {
	return max(slices.MaxFunc(r.ends, time.Time.Compare).Sub(r.begin), 1).Seconds()
}

func (b *bench) addTo(y, x []float32) { b.x.Axpy(y, 1e-9, x) }

func (b *bench) dot(y, x []float32) {
	if s := b.x.Dot(y, x); s < 0 {
		panic(fmt.Sprintf("bench: the scalar product of positive numbers is %v", s))
	}
}

// limits adds the rows of the limits themselves: each is its own limit, its time that of
// 10^9 operations or bytes.
func (b *bench) limits() {
	for _, threads := range b.threadCounts() {
		b.beside(threads, "the machine's limits", func() {
			b.sample(func() { b.rates(threads) })
		})
		for _, l := range limitNames {
			speed := median(b.all(threads, l.of)) / 1e9
			b.report.Rows = append(b.report.Rows, Row{Section: Limits, What: l.what, Shape: l.shape, Threads: threads,
				Seconds: 1 / speed, Achieved: speed, Limit: speed, Unit: l.unit, OfLimit: 1})
		}
	}
}

var limitNames = []struct {
	what, shape, unit string
	of                func(rates) float64
}{
	{"multiply-adds", "in registers", gflops, func(r rates) float64 { return r.flops }},
	{"memory, in place", "y += a x", gbytes, func(r rates) float64 { return r.streams }},
	{"memory, read", "x·y", gbytes, func(r rates) float64 { return r.reads }},
}

// all is what has been measured of one limit so far.
func (b *bench) all(threads int, of func(rates) float64) (values []float64) {
	for _, r := range b.seen[threads] {
		values = append(values, of(r))
	}
	return values
}

// noteRange notes with each limit how far it moved during the run.
func (b *bench) noteRange() {
	for i := range b.report.Rows {
		row := &b.report.Rows[i]
		for _, l := range limitNames {
			if row.Section == Limits && row.What == l.what {
				v := b.all(row.Threads, l.of)
				row.Note = fmt.Sprintf("%.4g to %.4g during the run", slices.Min(v)/1e9, slices.Max(v)/1e9)
			}
		}
	}
}
