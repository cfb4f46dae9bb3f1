package bench

import (
	"fmt"
	"time"

	"github.com/lmserve/lmserve/internal/train"
	"github.com/lmserve/lmserve/sparsemeta"
	"github.com/lmserve/lmserve/tokenizer"
	"github.com/lmserve/lmserve/txl"
)

// text is segments of text on their way through the model: what a stream's worker or a
// step of training does, phase by phase.
type text struct {
	b        *bench
	lm       *txl.Model
	size     segment
	seg      *txl.Segment
	mem      *txl.Memory
	in, next []int32 // the same tokens all along: what is computed does not depend on them
	nll      []float32
}

func (b *bench) newText(lm *txl.Model, size segment) *text {
	n := size.batch * size.rows
	t := &text{b: b, lm: lm, size: size, seg: txl.NewSegment(lm.Config, size.batch, size.rows),
		mem: txl.NewMemory(lm.Config, size.batch), nll: make([]float32, n)}
	tokens := tokenizer.Bytes{}.Encode(nil, letters(n+size.batch))
	t.in, t.next = tokens[:n], tokens[size.batch:]
	for t.mem.Len < size.memory && b.ctx.Err() == nil {
		t.forward(nil)
		t.seg.Remember(t.mem)
	}
	return t
}

func (t *text) forward(fast txl.Fast) {
	t.seg.Begin(t.b.x, t.lm, fast, t.mem)
	t.seg.Extend(t.b.x, t.in)
	t.seg.NLL(0, t.next, t.nll)
}

// chunks measures a chunk of a static stream and one of an adaptive stream.
func (b *bench) chunks() {
	t := b.newText(b.model.LM, b.segment())
	for _, threads := range b.threadCounts() {
		static := b.staticChunk(t, threads)
		if b.model.Learner != nil && b.ctx.Err() == nil {
			b.adaptiveChunk(t, threads, static)
		}
	}
}

// ofText is a task whose speed is counted in characters.
func (t *text) task(section, what string, w work) task {
	s := t.size
	shape := fmt.Sprintf("%d after %d", s.rows, s.memory)
	if s.batch > 1 {
		shape = fmt.Sprintf("%dx%s", s.batch, shape)
	}
	return task{section: section, what: what, shape: shape, work: w, amount: float64(s.batch * s.rows), unit: charsUnit}
}

// staticChunk returns the median time.
func (b *bench) staticChunk(t *text, threads int) (seconds float64) {
	r := b.beside(threads, "static chunk", func() {
		seconds = b.time(func() {
			t.forward(nil)
			t.seg.Remember(t.mem)
		})
	})
	b.addText(t, threads, "static chunk", seconds, r, work{flops: t.size.forward()}, "")
	return seconds
}

// addText adds a row of text with its time as a multiple of the limit's.
func (b *bench) addText(t *text, threads int, what string, seconds float64, r rates, w work, note string) {
	job := t.task(Chunks, what, w)
	job.note = fmt.Sprintf("%.2f x the limit%s", seconds/w.seconds(r), note)
	b.report.Rows = append(b.report.Rows, job.row(threads, seconds, r))
}

// Phases of an adaptive chunk.
const (
	phaseForward = iota
	phaseBackward
	phaseUpdate
	phaseRemember
	phases
)

// adaptiveChunk measures a chunk and its phases.
func (b *bench) adaptiveChunk(t *text, threads int, static float64) {
	l := b.model.Learner
	state := sparsemeta.NewState(l.Branches, len(l.Settings.Gammas), 1)
	grads := make([]float32, l.Size())
	fast, views := b.model.Views(state.Sum), b.model.Views(grads)
	var laps [phases][]float64
	var whole []float64
	step := func() {
		var at [phases + 1]time.Time
		at[0] = time.Now()
		t.forward(fast)
		at[1] = time.Now()
		t.seg.Backward(b.x, t.next, views)
		at[2] = time.Now()
		state.Update(b.x, b.model.Tables, l.Settings, l.Scale, grads)
		at[3] = time.Now()
		t.seg.Remember(t.mem)
		at[4] = time.Now()
		for p := range laps {
			laps[p] = append(laps[p], max(at[p+1].Sub(at[p]), 1).Seconds())
		}
		whole = append(whole, at[phases].Sub(at[0]).Seconds())
	}
	r := b.beside(threads, "adaptive chunk", func() {
		step()
		laps, whole = [phases][]float64{}, nil
		b.sample(step)
	})
	if b.ctx.Err() != nil {
		return
	}
	branches := map[string]bool{}
	for _, branch := range l.Branches {
		branches[branch.Name] = true
	}
	forward, backward := t.size.forward(), t.size.backward(func(name string) bool { return branches[name] })
	total := median(whole)
	b.addText(t, threads, "adaptive chunk", total, r, work{flops: forward + backward, streams: updateBytes(l)},
		fmt.Sprintf(", %.2f x static", total/static))
	for p, phase := range []task{
		task{section: Chunks, what: "  forward"}.ofFlops(forward),
		task{section: Chunks, what: "  backward"}.ofFlops(backward),
		updateTask(Chunks, "  update", l),
	} {
		seconds := median(laps[p])
		phase.note = fmt.Sprintf("%.0f %% of the chunk", 100*seconds/total)
		b.report.Rows = append(b.report.Rows, phase.row(threads, seconds, r))
	}
}

const (
	trainBatch = 8    // streams in a step of pretraining, as `lmserve train` has it
	trainMost  = 1e11 // operations of a step: for larger models the batch is halved, down to 1
)

// adamBytes is what Adam has to move for a weight: the gradient is read twice, first for
// its norm; weight and moments are read and written.
const adamBytes = 32

// train measures one step of pretraining.
func (b *bench) train() {
	c := b.model.LM.Config
	every := func(string) bool { return true }
	size := segment{Config: c, batch: trainBatch, rows: c.SegLen, memory: c.MemLen}
	for size.batch > 1 && size.forward()+size.backward(every) > trainMost {
		size.batch /= 2
	}
	t := b.newText(b.model.LM, size)
	grads := make([]float32, len(t.lm.W))
	views := t.lm.Layout.Slices(grads)
	weights := append([]float32(nil), t.lm.W...) // Adam's: the model's stay as they are
	adam := train.NewAdam(len(weights), 0.9, 0.999, 1e-8, 0.25)
	w := work{flops: size.forward() + size.backward(every), streams: adamBytes * float64(len(weights))}
	for _, threads := range b.threadCounts() {
		var seconds float64
		r := b.beside(threads, "step of training", func() {
			seconds = b.time(func() {
				t.forward(nil)
				t.seg.Backward(b.x, t.next, views)
				t.seg.Remember(t.mem)
				adam.Step(b.x, weights, grads, 1e-6)
			})
		})
		job := t.task(Train, "step of training", w)
		job.note = fmt.Sprintf("%.2f x the limit", seconds/w.seconds(r))
		b.report.Rows = append(b.report.Rows, job.row(threads, seconds, r))
	}
}
