package bench

import (
	"fmt"
	"time"

	"github.com/lmserve/lmserve/internal/model"
	"github.com/lmserve/lmserve/internal/stream"
)

// chunks measures a chunk of a static stream and one of an adaptive stream, each going
// on from the one before it.
func (b *bench) chunks() {
	t := b.newText(b.segment())
	still := func(string) bool { return false }
	for _, threads := range b.threadCounts() {
		t.Begin()
		static := b.measure(threads, t.task(Chunks, "static chunk",
			work{flops: t.size.forwardAfter(still), reads: t.size.tailReads()}), func() {
			t.score()
			t.Remember()
			t.Continue()
		})
		if b.model.Learner != nil && b.ctx.Err() == nil {
			b.adaptiveChunk(threads, t, static)
		}
	}
}

// adaptive is a text that the model adapts to, and the times that its phases take.
type adaptive struct {
	text
	laps  [len(phaseNames)][]float64 // seconds of each phase, one a chunk
	whole []float64
}

// phaseNames are the phases of a chunk.
var phaseNames = [...]string{"forward", "backward", "update"}

// newAdaptive returns a text in the segment and memory of a static one.
func newAdaptive(t *text, m *model.Model) *adaptive {
	a := &adaptive{text: *t}
	a.Rule = servingRule(m)
	a.State = a.NewState(1)
	a.Fast, a.Grads = stream.NewArena(m), stream.NewArena(m)
	a.Begin()
	return a
}

// step takes a chunk through the phases, as a stream's worker does. What has to be computed anew
// before the next chunk can be scored counts as forward.
func (a *adaptive) step() {
	start := time.Now()
	last := start
	lap := func() float64 {
		now := time.Now()
		seconds := max(now.Sub(last), 1).Seconds()
		last = now
		return seconds
	}
	a.score()
	forward := lap()
	a.Backward(a.next)
	backward := lap()
	a.Update()
	update := lap()
	a.Remember()
	a.Continue()
	forward += lap()
	for phase, seconds := range []float64{forward, backward, update} {
		a.laps[phase] = append(a.laps[phase], seconds)
	}
	a.whole = append(a.whole, last.Sub(start).Seconds())
}

// forget drops the times so far.
func (a *adaptive) forget() {
	a.laps, a.whole = [len(phaseNames)][]float64{}, nil
}

// adaptiveChunk measures a chunk and its phases; static is the time of a static one.
func (b *bench) adaptiveChunk(threads int, t *text, static float64) {
	a := newAdaptive(t, b.model)
	r := b.beside(threads, "adaptive chunk", func() {
		a.step() // warms the caches up
		a.forget()
		b.sample(a.step)
	})
	if b.ctx.Err() != nil {
		return
	}
	l := b.model.Learner
	branches := map[string]bool{}
	for _, branch := range l.Branches {
		branches[branch.Name] = true
	}
	adapted := func(name string) bool { return branches[name] }
	forward, backward := t.size.forwardAfter(adapted), t.size.backward(adapted)
	total := median(a.whole)
	tails := t.size.tailReads()
	whole := t.task(Chunks, "adaptive chunk",
		work{flops: forward + backward, streams: updateBytes(l), reads: 2 * tails})
	whole.note = fmt.Sprintf("%.2f x static", total/static)
	b.add(whole, threads, total, r)
	phases := []task{
		task{}.ofFlops(forward).reading(tails), task{}.ofFlops(backward).reading(tails), updateTask(l),
	}
	for p, phase := range phases {
		phase.section, phase.what = Chunks, "  "+phaseNames[p]
		seconds := median(a.laps[p])
		phase.note = fmt.Sprintf("%.0f %% of the chunk", 100*seconds/total)
		b.add(phase, threads, seconds, r)
	}
}
