package bench

import (
	"fmt"

	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/txl"
)

// text computes segments of a text. It calls the same phases as a stream's worker or a training
// step.
type text struct {
	stream.Step
	language
	size     segment
	at       uint64
	in, next []int32 // inputs and targets [rows,batch]
	nll      []float32
}

// newText returns a text for the static model, and fills the memory with its beginning.
func (b *bench) newText(size segment) *text {
	n := size.batch * size.rows
	lm := b.model.LM
	t := &text{
		Step: stream.Step{
			Exec: b.x, Network: lm,
			Segment: txl.NewSegment(lm.Config, size.batch, size.rows),
			Memory:  txl.NewMemory(lm.Config, size.batch),
		},
		language: b.language, size: size,
		in: make([]int32, n), next: make([]int32, n), nll: make([]float32, n),
	}
	for t.Memory.Len < size.memory && b.ctx.Err() == nil {
		t.Begin()
		t.score()
		t.Remember()
	}
	return t
}

// score scores the next segment. The caller must have called Begin or Continue.
func (t *text) score() {
	for i := range t.next {
		t.next[i] = t.token(t.at)
		t.at++
	}
	copy(t.in[t.size.batch:], t.next) // The inputs of the first row are arbitrary.
	t.Score(t.in, t.next, t.nll)
}

func (t *text) task(section, what string, w work) task {
	s := t.size
	shape := fmt.Sprintf("%d after %d", s.rows, s.memory)
	if s.batch > 1 {
		shape = fmt.Sprintf("%dx%s", s.batch, shape)
	}
	return task{
		section: section, what: what, shape: shape, work: w,
		amount: float64(s.batch * s.rows), unit: t.unit(),
	}
}
