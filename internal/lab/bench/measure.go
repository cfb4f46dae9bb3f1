package bench

import (
	"slices"
	"time"
)

const (
	samplesMin    = 3
	sampleSeconds = 500e-6 // minimum seconds of a sample; shorter work is repeated
)

// work is the minimum work of a row, as the computer's limits count it.
type work struct {
	flops float64 // multiplications and additions, limited by the speed of registers
	// operations of matrix products, limited by the speed of products from the cache
	products float64
	streams  float64 // bytes read and written in place
	reads    float64 // bytes only read
}

func (w work) seconds(r rates) float64 {
	return w.flops/r.flops + w.products/r.products + w.streams/r.streams + w.reads/r.reads
}

// task is a row to measure. The row's speed is the field `amount` per second, in the field `unit`.
type task struct {
	section, what, shape string
	work                 work
	amount               float64
	unit                 string
	note                 string
}

func (t task) ofFlops(n float64) task {
	t.work, t.amount, t.unit = work{flops: n}, n/1e9, gflops
	return t
}

func (t task) ofProducts(n float64) task {
	t.work, t.amount, t.unit = work{products: n}, n/1e9, gflops
	return t
}

func (t task) reading(bytes float64) task {
	t.work.reads += bytes
	return t
}

func (t task) ofStream(bytes float64) task {
	t.work, t.amount, t.unit = work{streams: bytes}, bytes/1e9, gbytes
	return t
}

// measure measures the function `do`, adds the row of task t, and returns the median time in
// seconds.
func (b *bench) measure(threads int, t task, do func()) (seconds float64) {
	r := b.beside(threads, t.what, func() { seconds = b.time(do) })
	if b.ctx.Err() == nil {
		b.add(t, threads, seconds, r)
	}
	return seconds
}

func (b *bench) add(t task, threads int, seconds float64, r rates) {
	limit := t.work.seconds(r)
	b.report.Rows = append(b.report.Rows, Row{
		Section: t.section, What: t.what, Shape: t.shape, Threads: threads, Seconds: seconds,
		Achieved: t.amount / seconds, Limit: t.amount / limit, Unit: t.unit,
		OfLimit: limit / seconds, Note: t.note,
	})
}

func (b *bench) next(what string) {
	if b.Progress != nil && b.ctx.Err() == nil {
		b.Progress(what, b.begun, b.planned)
	}
	b.begun++
}

// beside sets the number of threads and calls f. It returns the mean of the computer's limits
// before and after the call.
func (b *bench) beside(threads int, what string, f func()) rates {
	b.next(what)
	before := b.rates(threads)
	b.x.SetThreads(threads)
	f()
	after := b.rates(threads)
	return before.mean(after)
}

// time returns the median time of f in seconds. A first call warms the caches.
func (b *bench) time(f func()) float64 {
	f()
	first := seconds(f)
	calls := max(1, int(sampleSeconds/first))
	var samples []float64
	b.sample(func() {
		samples = append(samples, seconds(func() {
			for range calls {
				f()
			}
		})/float64(calls))
	})
	if len(samples) == 0 {
		return first // canceled
	}
	return median(samples)
}

// sample calls f repeatedly during b.Seconds, and at least samplesMin times. A canceled context
// stops the calls.
func (b *bench) sample(f func()) {
	start := time.Now()
	for n := 0; b.ctx.Err() == nil &&
		(n < samplesMin || time.Since(start).Seconds() < b.Seconds); n++ {
		f()
	}
}

func seconds(f func()) float64 {
	start := time.Now()
	f()
	return max(time.Since(start), 1).Seconds() // a coarse clock may measure 0
}

func median(samples []float64) float64 {
	s := slices.Sorted(slices.Values(samples))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}
