package train

import (
	"fmt"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/sparsemeta"
	"github.com/lmserve/lmserve/txl"
)

// textStep is a step with its chunk of text: training makes the same steps as serving.
type textStep struct {
	stream.Step
	inputs  []int32 // [T,B]
	targets []int32 // [T,B]
	nll     []float32
	mixer   *mixer // nil if there is no companion
}

// newText returns a copy of a step for chunks of the given length. The copy has a new segment.
func newText(s stream.Step, batch, length int) textStep {
	n := batch * length
	s.Segment = txl.NewSegment(s.Network.Config, batch, length)
	return textStep{s, make([]int32, n), make([]int32, n), make([]float32, n), nil}
}

// newStep returns a step of a batch of streams through the static network.
func newStep(x *kernel.Exec, lm *txl.Model, batch int) stream.Step {
	return stream.Step{Exec: x, Network: lm, Memory: txl.NewMemory(lm.Config, batch)}
}

// newAdaptiveStep returns a step of streams that share fast weights, which are written as the
// settings say. The fast weights are float32 and traced, because meta-learners are trained on them.
func newAdaptiveStep(x *kernel.Exec, m *model.Model, batch int, set sparsemeta.Settings,
	seed uint64) stream.Step {
	s := newStep(x, m.LM, batch)
	s.Rule = stream.Rule{Learner: m.Learner, Settings: set, Precision: stream.TrainingPrecision,
		Trace: true}
	s.State = s.NewState(seed)
	s.Fast, s.Grads = stream.NewArena(m), stream.NewArena(m)
	return s
}

// forward begins a chunk after the memory and returns its mean loss in nats.
func (t *textStep) forward() float64 {
	t.begin()
	return t.score()
}

// begin calls Begin of all networks in the mixture; goOn and remember call Continue and Remember.
func (t *textStep) begin()    { t.each((*stream.Step).Begin) }
func (t *textStep) goOn()     { t.each((*stream.Step).Continue) }
func (t *textStep) remember() { t.each((*stream.Step).Remember) }

// each calls the function do with the step. If the static network is part of the mixture, it also
// calls do with that network's step.
func (t *textStep) each(do func(*stream.Step)) {
	do(&t.Step)
	if t.mixer != nil && t.mixer.static != nil {
		do(t.mixer.static)
	}
}

// score scores a chunk that has begun, and returns its mean loss in nats.
func (t *textStep) score() float64 {
	t.losses(len(t.targets))
	return t.mean()
}

// mean returns the mean of the losses written last.
func (t *textStep) mean() float64 {
	sum := 0.0
	for _, v := range t.nll {
		sum += float64(v)
	}
	return sum / float64(len(t.nll))
}

// losses reads the first n tokens of a chunk that has begun, and scores them.
func (t *textStep) losses(n int) {
	inputs, targets, nll := t.inputs[:n], t.targets[:n], t.nll[:n]
	if t.mixer == nil {
		t.Score(inputs, targets, nll)
		return
	}
	t.Score(inputs, nil, nil)
	t.mixer.score(&t.Step, inputs, targets, nll)
}

// backward computes the gradient of the scored loss: of the mixture's loss if there is a companion,
// else of the network's loss.
func (t *textStep) backward() {
	if t.mixer != nil {
		t.mixer.learnFrom(&t.Step, t.targets, 1)
	}
	t.Backward(t.targets)
}

// backwardOfInput computes the gradient G that the fast weights learn from. If done is true,
// backward has already computed a gradient. That gradient is reused if it belongs to the same loss.
func (t *textStep) backwardOfInput(done bool) {
	switch {
	case t.mixer != nil && !(done && t.mixer.share == 1):
		t.mixer.learnFrom(&t.Step, t.targets, t.mixer.share)
	case done:
		return
	}
	t.Backward(t.targets)
}

// reset sets I and M to zero, and the companion to its initial state.
func (t *textStep) reset() {
	if t.State != nil {
		t.State.Reset()
		clear(t.Fast.Values)
	}
	if t.mixer != nil {
		t.mixer.counts.Reset()
	}
}

// fastArrays returns all arrays of the fast weights' state.
func (t *textStep) fastArrays() []array {
	var all []array
	for bank := range t.State.M {
		all = append(all,
			array{fmt.Sprintf("fast.i.%d", bank), t.State.I[bank].F32},
			array{fmt.Sprintf("fast.m.%d", bank), t.State.M[bank].F32},
			array{fmt.Sprintf("fast.x.%d", bank), t.State.X[bank]})
	}
	return all
}

// saveMemory stores the rows in use of every layer.
func (t *textStep) saveMemory(c *checkpoint) { saveRows(c, "memory", t.Memory, t.rowSize()) }

// loadMemory reads the given number of rows of every layer.
func (t *textStep) loadMemory(c *checkpoint, rows int) {
	if most := t.Network.Config.MemLen; rows < 0 || rows > most {
		c.fail("memory has %d rows, expected 0 to %d", rows, most)
		return
	}
	loadRows(c, "memory", t.Memory, rows, t.rowSize())
}

// saveRows stores the rows in use of a memory's layers under a name.
func saveRows(c *checkpoint, name string, m *txl.Memory, size int) {
	for l, rows := range m.Layers {
		if rows != nil {
			c.put(fmt.Sprintf("%s.%d", name, l), rows[:m.Len*size])
		}
	}
}

// loadRows reads a memory of the given number of rows, layer by layer, from a checkpoint.
func loadRows(c *checkpoint, name string, m *txl.Memory, rows, size int) {
	m.Len = rows
	for l, layer := range m.Layers {
		if layer != nil {
			c.get(fmt.Sprintf("%s.%d", name, l), layer[:rows*size])
		}
	}
}

// rowSize returns the number of elements of a row of memory.
func (t *textStep) rowSize() int { return t.Segment.B * t.Network.Config.DModel }
