package bench

import (
	"fmt"
	"slices"

	"github.com/klauspost/cpuid/v2"

	"github.com/lmserve/lmserve/internal/kernel"
)

// rates are the machine's limits with some number of threads, a second.
type rates struct {
	flops   float64 // multiply-adds in registers, two operations each
	streams float64 // bytes of y += a x over arrays far larger than the caches: two read, one written in place
	reads   float64 // bytes of the scalar product of two such arrays
}

const (
	rateSamples = 5

	peakSeconds = 1e-3 // of a sample
	peakPieces  = 8    // of a sample, for each thread

	streamBlock  = 1 << 15          // elements of each array in one piece of work
	streamWindow = 64 * streamBlock // and in one sample: 16 MiB of both together
	arrayLeast   = 64 << 20         // bytes of an array
	arrayMost    = 1 << 30
	cachesLarge  = 2 // an array is so many times as large as the last cache
)

// memory is two arrays far larger than any cache. A sample takes the next part of
// them, so that none finds its part in a cache.
type memory struct {
	y, x   []float32
	at     int // of the next sample
	rounds int // of the peak's chains in a piece; 0: not known yet
}

func newMemory() memory {
	bytes := min(max(arrayLeast, cachesLarge*cpuid.CPU.Cache.L3), arrayMost)
	n := (bytes/4 + streamWindow - 1) / streamWindow * streamWindow
	m := memory{y: make([]float32, n), x: make([]float32, n)}
	for i := range m.y { // pages never written would share one page of zeros
		m.y[i], m.x[i] = 1, 1
	}
	return m
}

// rates measures the limits.
func (b *bench) rates(threads int) rates {
	b.x.SetThreads(threads)
	r := rates{flops: b.peak(threads), streams: b.stream(3, add), reads: b.stream(2, read)}
	b.seen[threads] = append(b.seen[threads], r)
	return r
}

// peak is the operations a second of all threads together.
func (b *bench) peak(threads int) float64 {
	m := &b.memory
	if m.rounds == 0 {
		const rounds = 1 << 12
		once := seconds(func() { kernel.PeakRounds(rounds) })
		m.rounds = max(1, int(rounds*peakSeconds/peakPieces/once))
	}
	pieces := peakPieces * threads
	flops := float64(kernel.PeakRounds(1)) * float64(m.rounds) * float64(pieces)
	return b.rate(func() float64 {
		t := peakTask(m.rounds)
		b.x.Parallel(pieces, &t)
		return flops
	})
}

// stream is the bytes a second of a pass over the arrays that moves so many elements at each place.
func (b *bench) stream(elements int, pass func(y, x []float32)) float64 {
	m := &b.memory
	return b.rate(func() float64 {
		t := streamTask{m.y[m.at : m.at+streamWindow], m.x[m.at : m.at+streamWindow], pass}
		b.x.Parallel(streamWindow/streamBlock, &t)
		m.at = (m.at + streamWindow) % len(m.y)
		return float64(4 * elements * streamWindow)
	})
}

// rate is the median of what f does a second; f says how much it did.
func (b *bench) rate(f func() float64) float64 {
	var samples [rateSamples]float64
	for i := range samples {
		var amount float64
		time := seconds(func() { amount = f() })
		samples[i] = amount / time
	}
	return median(samples[:])
}

type peakTask int

func (t *peakTask) Do(*kernel.Exec, int) { kernel.PeakRounds(int(*t)) }

type streamTask struct {
	y, x []float32
	pass func(y, x []float32)
}

func (t *streamTask) Do(_ *kernel.Exec, i int) {
	lo, hi := i*streamBlock, (i+1)*streamBlock
	t.pass(t.y[lo:hi], t.x[lo:hi])
}

func add(y, x []float32) { kernel.Axpy(y, 1e-9, x) }

func read(y, x []float32) {
	if s := kernel.Dot(y, x); s < 0 {
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
