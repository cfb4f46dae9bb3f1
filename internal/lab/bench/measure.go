package bench

import (
	"slices"
	"time"
)

const (
	samplesMin    = 3
	sampleSeconds = 500e-6 // minimum length of a sample; short work is repeated
)

// work is the minimum work of a row.
type work struct {
	flops    float64 // multiplications and additions, limited by the registers' speed
	products float64 // operations of matrix products, limited by products from the cache
	streams  float64 // bytes read and written in place
	reads    float64 // bytes only read
}

// seconds returns the time of the work at the machine's limits.
func (w work) seconds(r rates) float64 {
	return w.flops/r.flops + w.products/r.products + w.streams/r.streams + w.reads/r.reads
}

// task is a row to measure. Its speed is the field amount divided by the seconds, in the field
// unit.
type task struct {
	section, what, shape string
	work                 work
	amount               float64
	unit                 string
	note                 string
}

// ofFlops returns the task with arithmetic as its work.
func (t task) ofFlops(n float64) task {
	t.work, t.amount, t.unit = work{flops: n}, n/1e9, gflops
	return t
}

// ofProducts returns the task with the products of a chunk as its work.
func (t task) ofProducts(n float64) task {
	t.work, t.amount, t.unit = work{products: n}, n/1e9, gflops
	return t
}

// reading returns the task with additional bytes to read.
func (t task) reading(bytes float64) task {
	t.work.reads += bytes
	return t
}

// ofStream returns the task with bytes, read and written in place, as its work.
func (t task) ofStream(bytes float64) task {
	t.work, t.amount, t.unit = work{streams: bytes}, bytes/1e9, gbytes
	return t
}

// measure runs a task with do, adds its row, and returns its time.
func (b *bench) measure(threads int, t task, do func()) (seconds float64) {
	r := b.beside(threads, t.what, func() { seconds = b.time(do) })
	if b.ctx.Err() == nil {
		b.add(t, threads, seconds, r)
	}
	return seconds
}

// add adds the row of a task, given its time and the limits measured around it.
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

// beside runs f on a number of threads and returns the mean of the machine's limits before and
// after.
func (b *bench) beside(threads int, what string, f func()) rates {
	b.next(what)
	before := b.rates(threads)
	b.x.SetThreads(threads)
	f()
	after := b.rates(threads)
	return before.mean(after)
}

// time returns the median time of a warm f in seconds.
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

// sample calls f for the time of a row, at least a few times, unless the run is canceled.
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
	return max(time.Since(start), 1).Seconds() // a coarse clock may show no time
}

func median(samples []float64) float64 {
	s := slices.Sorted(slices.Values(samples))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}
