package conformance

import (
	"fmt"
	"slices"

	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/txl"
)

// memories compares memories 0 to L with the file's memories, and replaces them by the file's.
// Memory L is the output of the last layer, in the parameter `top`, because no layer reads memory
// L. A file may omit empty memories.
func (r *replay) memories(prefix string, mem *txl.Memory, top *topMemory) {
	for l, rows := range append(slices.Clone(mem.Layers), top.rows) {
		name := fmt.Sprintf("%s.mem.%d", prefix, l)
		if mem.Len == 0 && !r.has(name) {
			continue
		}
		r.near(name, rows[:mem.Len*top.width])
		r.adopt(name, rows[:mem.Len*top.width])
	}
}

// topMemory holds the output of the last layer for the tokens in memory.
type topMemory struct {
	rows  []float32
	width int // numbers in a row: streams times width of the model
}

func (r *replay) newTop(batch int) *topMemory {
	return &topMemory{width: batch * r.model.Config.DModel}
}

func (t *topMemory) remember(s *stream.Step) {
	t.rows = append(t.rows, s.Segment.Hidden()...)
	t.rows = t.rows[len(t.rows)-s.Memory.Len*t.width:]
}

func (r *replay) newStep(batch, length int) stream.Step {
	c := r.model.Config
	return stream.Step{Exec: r.exec, Network: r.model, Segment: txl.NewSegment(c, batch, length),
		Memory: txl.NewMemory(c, batch)}
}

// score computes the losses of a chunk, compares them with the file, and returns the targets. It
// does nothing if the file lacks the chunk's tokens.
func (r *replay) score(prefix string, step *stream.Step) (target []int32) {
	n := step.Segment.T * step.Segment.B
	target = r.tokens(prefix+".target", n)
	input, nll := r.tokens(prefix+".input", n), make([]float32, n)
	if r.err != nil {
		return target
	}
	step.Begin()
	step.Score(input, target, nll)
	r.near(prefix+".nll", nll)
	return target
}

func (r *replay) slowGradients(step *stream.Step, target []int32) {
	step.All = stream.NewArenaOfAll(r.model.Layout)
	step.Backward(target)
	for i, t := range r.model.Layout.Tensors {
		r.close("grad."+t.Name, step.All.Views[i])
	}
}

func (r *replay) txl() {
	segments, length, batch := r.int("segments"), r.int("segment_len"), r.int("batch")
	r.roomFor(batch, length)
	if r.err != nil {
		return
	}
	step, top := r.newStep(batch, length), r.newTop(batch)
	for i := range segments {
		prefix := fmt.Sprintf("seg%d", i)
		target := r.score(prefix, &step)
		if r.err != nil {
			return
		}
		if i == segments-1 {
			r.slowGradients(&step, target)
		}
		step.Remember()
		top.remember(&step)
		r.memories(prefix, step.Memory, top)
	}
}
