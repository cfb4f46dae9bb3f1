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
	rateSamples   = 5
	peakSeconds   = 1e-3     // of a sample
	peakPieces    = 8        // of a sample, for each thread
	streamBlock   = 1 << 15  // elements of each array in one piece of work
	streamPieces  = 64       // of a sample: 16 MiB of both arrays
	streamLeast   = 64 << 20 // bytes of each array
	streamMost    = 1 << 30
	cachesOfArray = 2 // an array is twice as large as the largest cache
)

// memory is two arrays far larger than any cache. A sample takes the next part of
// them, so that none finds its part in a cache.
type memory struct {
	y, x   []float32
	at     int // of the next sample
	rounds int // of the peak's chains in a piece; 0: not known yet
}

func newMemory() memory {
	bytes := min(max(streamLeast, cachesOfArray*cpuid.CPU.Cache.L3), streamMost)
	const window = streamBlock * streamPieces
	n := (bytes/4 + window - 1) / window * window
	m := memory{y: make([]float32, n), x: make([]float32, n)}
	for i := range m.y { // untouched pages would all be the same one
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
	flops := 0
	return b.rate(func() float64 {
		p := peakTask(m.rounds)
		b.x.Parallel(peakPieces*threads, &p)
		flops = kernel.PeakRounds(1) * m.rounds * peakPieces * threads
		return float64(flops)
	})
}

// stream is the bytes a second of a pass over so many elements for each of the arrays' length.
func (b *bench) stream(elements int, pass func(y, x []float32)) float64 {
	m := &b.memory
	return b.rate(func() float64 {
		const window = streamBlock * streamPieces
		t := streamTask{m.y[m.at : m.at+window], m.x[m.at : m.at+window], pass}
		b.x.Parallel(streamPieces, &t)
		m.at = (m.at + window) % len(m.y)
		return float64(4 * elements * window)
	})
}

// rate is the median of what f does a second; f says how much it did.
func (b *bench) rate(f func() float64) float64 {
	var samples [rateSamples]float64
	for i := range samples {
		var amount float64
		samples[i] = 1 / seconds(func() { amount = f() })
		samples[i] *= amount
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
			speed := l.of(b.typical(threads)) / 1e9
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

// typical is the median of each limit so far.
func (b *bench) typical(threads int) (r rates) {
	r.flops = median(b.all(threads, limitNames[0].of))
	r.streams = median(b.all(threads, limitNames[1].of))
	r.reads = median(b.all(threads, limitNames[2].of))
	return r
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
