package bench

import (
	"fmt"
	"time"

	"github.com/lmserve/lmserve/internal/model"
	"github.com/lmserve/lmserve/sparsemeta"
	"github.com/lmserve/lmserve/txl"
)

// chunks measures a chunk of a static stream and one of an adaptive stream, each going
// on from the one before it.
func (b *bench) chunks() {
	t := b.newText(b.segment())
	still := func(string) bool { return false }
	for _, threads := range b.threadCounts() {
		t.seg.Begin(t.x, t.lm, nil, t.mem)
		static := b.measure(threads, t.task(Chunks, "static chunk", work{flops: t.size.forwardAfter(still)}), func() {
			t.score()
			t.seg.Remember(t.mem)
			t.seg.Continue(t.x)
		})
		if b.model.Learner != nil && b.ctx.Err() == nil {
			b.adaptiveChunk(threads, t, static)
		}
	}
}

// adaptive is a text that the model adapts to.
type adaptive struct {
	*text
	model *model.Model
	state *sparsemeta.State
	fast  []float32
	grads []float32
	views txl.Grads
	laps  [len(phaseNames)][]float64 // seconds of each phase, a chunk each
	whole []float64
}

// phaseNames are the phases of a chunk.
var phaseNames = [...]string{"forward", "backward", "update"}

func newAdaptive(t *text, m *model.Model) *adaptive {
	a := &adaptive{text: t, model: m, state: newState(m.Learner)}
	a.fast, a.grads = make([]float32, m.ArenaSize()), make([]float32, m.ArenaSize())
	a.views = m.Views(a.grads)
	a.seg.Begin(a.x, a.lm, m.Views(a.fast), a.mem)
	return a
}

// step is a chunk: score, backward, update, as a stream's worker has it, and what has to
// be computed anew before the next one can be scored, which counts as forward.
func (a *adaptive) step() {
	l := a.model.Learner
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
	a.seg.Backward(a.x, a.next, a.views)
	backward := lap()
	a.state.Update(a.x, a.model.Tables, l.Settings, l.Scale, a.grads, a.fast)
	update := lap()
	a.seg.Remember(a.mem)
	a.seg.Continue(a.x)
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
		a.step() // warm
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
	whole := t.task(Chunks, "adaptive chunk", work{flops: forward + backward, streams: updateBytes(l)})
	whole.note = fmt.Sprintf("%.2f x static", total/static)
	b.add(whole, threads, total, r)
	for p, phase := range []task{task{}.ofFlops(forward), task{}.ofFlops(backward), updateTask(l)} {
		phase.section, phase.what = Chunks, "  "+phaseNames[p]
		seconds := median(a.laps[p])
		phase.note = fmt.Sprintf("%.0f %% of the chunk", 100*seconds/total)
		b.add(phase, threads, seconds, r)
	}
}
