package bench

import (
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/klauspost/cpuid/v2"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
)

// rates are the computer's speed limits per second, for some number of threads.
type rates struct {
	flops    float64 // operations on registers; a multiply-add is two operations
	products float64 // operations of matrix products whose operands are in the cache
	// streams is the speed of y += a x in bytes per second, over arrays that exceed the caches.
	// Each step reads x and y, and writes y.
	streams float64
	reads   float64 // speed of the scalar product of x and y, in bytes per second
}

const (
	rateSamples = 5
	ratePieces  = 32
	productRate = 8
	peakSeconds = 1e-3 // seconds for one sample of the peak speed
	streamPiece = 1 << 15

	arrayLeast  = 64 << 20 // bytes of an array
	arrayMost   = 1 << 30
	cachesLarge = 2 // size of an array, in multiples of the L3 cache
)

func (r rates) mean(s rates) rates {
	return rates{
		flops: (r.flops + s.flops) / 2, products: (r.products + s.products) / 2,
		streams: (r.streams + s.streams) / 2, reads: (r.reads + s.reads) / 2,
	}
}

// memory is a pair of arrays that exceed every cache.
type memory struct{ y, x []float32 }

func newMemory() memory {
	n := min(max(arrayLeast, cachesLarge*cpuid.CPU.Cache.L3), arrayMost) / 4
	m := memory{y: make([]float32, n), x: make([]float32, n)}
	// Unwritten pages would all map to one page of zeros, which stays in the cache.
	for i := range m.y {
		m.y[i], m.x[i] = 1, 1
	}
	return m
}

func (m memory) piece(i int) (y, x []float32) {
	at := i % (len(m.y) / streamPiece) * streamPiece
	return m.y[at : at+streamPiece], m.x[at : at+streamPiece]
}

// factors are the operands of one matrix product, 184 KiB, which fit the L2 cache of a core. Their
// sizes are multiples of the kernels' tiles, so that no partial tile slows the product.
type factors struct{ c, a, b kernel.Matrix }

func (b *bench) rates(threads int) rates {
	b.x.SetThreads(threads)
	r := rates{
		flops: b.peak(threads), products: b.products(threads),
		streams: b.stream(threads, 3, b.addTo), reads: b.stream(threads, 2, b.dot),
	}
	b.seen[threads] = append(b.seen[threads], r)
	return r
}

// peak returns the number of operations on registers per second, for all threads together.
func (b *bench) peak(threads int) float64 {
	if b.rounds == 0 {
		const rounds = 1 << 12
		once := seconds(func() { b.x.PeakRounds(rounds) })
		b.rounds = max(1, int(rounds*peakSeconds/ratePieces/once))
	}
	amount := float64(b.x.PeakRounds(1)) * float64(b.rounds)
	return b.rate(threads, ratePieces, amount, func(*kernel.Exec, int, int) {
		b.x.PeakRounds(b.rounds)
	})
}

// products returns the number of operations per second in matrix products from the cache, for all
// threads together. This limit is measured because on some processors no matrix product is as fast
// as operations on registers.
func (b *bench) products(threads int) float64 {
	const m, n, k = 96, 64, 256
	for len(b.factors) < threads {
		b.factors = append(b.factors, factors{c: zeros(m, n), a: random(m, k), b: random(n, k)})
	}
	return b.rate(threads, productRate, product(m, n, k), func(w *kernel.Exec, thread, _ int) {
		f := b.factors[thread]
		w.MulNT(f.c, f.a, f.b, false)
	})
}

// stream returns the bytes per second that `pass` reads and writes in the arrays. For each index, a
// pass reads or writes `elements` numbers. It continues where the last pass ended, so that its
// numbers are not in a cache.
func (b *bench) stream(threads, elements int, pass func(y, x []float32)) float64 {
	first := b.pieces
	b.pieces += rateSamples * ratePieces * threads
	amount := float64(4 * elements * streamPiece)
	return b.rate(threads, ratePieces, amount, func(_ *kernel.Exec, _, i int) {
		pass(b.memory.piece(first + i))
	})
}

// rate returns the work per second of all threads together, as the median of rateSamples samples. A
// sample has `each` pieces per thread. The function `do` processes piece i, which is `amount` of
// work.
func (b *bench) rate(
	threads, each int, amount float64, do func(w *kernel.Exec, thread, i int),
) float64 {
	var samples [rateSamples]float64
	pieces := each * threads
	for k := range samples {
		r := race{n: pieces, ends: make([]time.Time, threads)}
		r.do = func(w *kernel.Exec, thread, i int) { do(w, thread, k*pieces+i) }
		r.missing.Store(int64(threads))
		b.x.Parallel(threads, &r)
		samples[k] = amount * float64(pieces) / r.seconds()
	}
	return median(samples[:])
}

// race is a kernel.Task that starts all threads at the same time. Therefore a sample does not
// include the time to wake threads.
type race struct {
	n       int
	do      func(w *kernel.Exec, thread, i int)
	missing atomic.Int64
	next    atomic.Int64
	begin   time.Time
	ends    []time.Time
}

// Do waits until all threads have started, and processes pieces until none is left. The index of
// the task is the thread.
func (r *race) Do(w *kernel.Exec, thread int) {
	if r.missing.Add(-1) == 0 {
		r.begin = time.Now()
	}
	for r.missing.Load() > 0 {
		runtime.Gosched()
	}
	for i := int(r.next.Add(1)) - 1; i < r.n; i = int(r.next.Add(1)) - 1 {
		r.do(w, thread, i)
	}
	r.ends[thread] = time.Now()
}

func (r *race) seconds() float64 {
	return max(slices.MaxFunc(r.ends, time.Time.Compare).Sub(r.begin), 1).Seconds()
}

func (b *bench) addTo(y, x []float32) { b.x.Axpy(y, 1e-9, x) }

func (b *bench) dot(y, x []float32) {
	if s := b.x.Dot(y, x); s < 0 {
		panic(fmt.Sprintf("bench: the scalar product of positive numbers is %v, expected 0 or "+
			"more", s))
	}
}

// limits adds the rows of the section Limits. Each row has the time of 10^9 operations or bytes,
// and its own speed as the limit.
func (b *bench) limits() {
	for _, threads := range b.threadCounts() {
		b.beside(threads, "the machine's limits", func() {
			b.sample(func() { b.rates(threads) })
		})
		for _, l := range limitNames {
			speed := median(b.all(threads, l.of)) / 1e9
			b.report.Rows = append(b.report.Rows, Row{Section: Limits, What: l.what, Shape: l.shape,
				Threads: threads,
				Seconds: 1 / speed, Achieved: speed, Limit: speed, Unit: l.unit, OfLimit: 1})
		}
	}
}

var limitNames = []struct {
	what, shape, unit string
	of                func(rates) float64
}{
	{"multiply-adds", "in registers", gflops, func(r rates) float64 { return r.flops }},
	{"multiply-adds", "products from cache", gflops, func(r rates) float64 { return r.products }},
	{"memory, in place", "y += a x", gbytes, func(r rates) float64 { return r.streams }},
	{"memory, read", "x·y", gbytes, func(r rates) float64 { return r.reads }},
}

func (b *bench) all(threads int, of func(rates) float64) (values []float64) {
	for _, r := range b.seen[threads] {
		values = append(values, of(r))
	}
	return values
}

func (b *bench) noteRange() {
	for i := range b.report.Rows {
		row := &b.report.Rows[i]
		for _, l := range limitNames {
			if row.Section == Limits && row.What == l.what && row.Shape == l.shape {
				v := b.all(row.Threads, l.of)
				row.Note = fmt.Sprintf("%.4g to %.4g during the run", slices.Min(v)/1e9,
					slices.Max(v)/1e9)
			}
		}
	}
}
