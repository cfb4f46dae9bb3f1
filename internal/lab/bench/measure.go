package bench

import (
	"slices"
	"time"
)

const (
	samplesMin    = 3
	sampleSeconds = 500e-6 // short work is repeated within a sample for so long
)

// work is what a row has to do at least.
type work struct {
	flops    float64 // multiplications and additions, whose limit is the registers' speed
	products float64 // those of many products, whose limit is that of products from the cache
	streams  float64 // bytes read and written in place
	reads    float64 // bytes only read
}

// seconds is how long the work takes at the machine's limits.
func (w work) seconds(r rates) float64 {
	return w.flops/r.flops + w.products/r.products + w.streams/r.streams + w.reads/r.reads
}

// task is a row to be measured: its speed is amount a second, in unit.
type task struct {
	section, what, shape string
	work                 work
	amount               float64
	unit                 string
	note                 string
}

// ofFlops is the task with arithmetic for work.
func (t task) ofFlops(n float64) task {
	t.work, t.amount, t.unit = work{flops: n}, n/1e9, gflops
	return t
}

// ofProducts is the task with the products of a chunk for work.
func (t task) ofProducts(n float64) task {
	t.work, t.amount, t.unit = work{products: n}, n/1e9, gflops
	return t
}

// reading is the task with bytes that are read besides.
func (t task) reading(bytes float64) task {
	t.work.reads += bytes
	return t
}

// ofStream is the task with bytes, read and written in place, for work.
func (t task) ofStream(bytes float64) task {
	t.work, t.amount, t.unit = work{streams: bytes}, bytes/1e9, gbytes
	return t
}

// measure adds the row of a task that do carries out, and returns its time.
func (b *bench) measure(threads int, t task, do func()) (seconds float64) {
	r := b.beside(threads, t.what, func() { seconds = b.time(do) })
	if b.ctx.Err() == nil {
		b.add(t, threads, seconds, r)
	}
	return seconds
}

// add adds the row of a task, given its time and the limits beside it.
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

// beside runs f on so many threads and returns the machine's limits before and after, on average.
func (b *bench) beside(threads int, what string, f func()) rates {
	b.next(what)
	before := b.rates(threads)
	b.x.SetThreads(threads)
	f()
	after := b.rates(threads)
	return before.mean(after)
}

// time is the median time of f in seconds, once it is warm.
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
		return first // cancelled
	}
	return median(samples)
}

// sample calls f for the time of a row, a few times at least, unless the run is cancelled.
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
	return max(time.Since(start), 1).Seconds() // a coarse clock may stand still
}

func median(samples []float64) float64 {
	s := slices.Sorted(slices.Values(samples))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}
