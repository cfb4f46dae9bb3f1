package train

import (
	"fmt"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/sparsemeta"
	"github.com/lmserve/lmserve/txl"
)

// textStep is a stream.Step with the text of a chunk. Training and serving make the same steps.
type textStep struct {
	stream.Step
	inputs  []int32 // [T,B]: T tokens of B streams
	targets []int32
	nll     []float32
	mixer   *mixer // nil if there is no companion
}

func newText(s stream.Step, batch, length int) textStep {
	n := batch * length
	s.Segment = txl.NewSegment(s.Network.Config, batch, length)
	return textStep{s, make([]int32, n), make([]int32, n), make([]float32, n), nil}
}

func newStep(x *kernel.Exec, lm *txl.Model, batch int) stream.Step {
	return stream.Step{Exec: x, Network: lm, Memory: txl.NewMemory(lm.Config, batch)}
}

// newAdaptiveStep returns a step of streams that share fast weights. The fast weights are float32,
// and the step is traced, because meta-learners are trained on the fast weights.
func newAdaptiveStep(x *kernel.Exec, m *model.Model, batch int, set sparsemeta.Settings,
	seed uint64) stream.Step {
	s := newStep(x, m.LM, batch)
	s.Rule = stream.Rule{Learner: m.Learner, Settings: set, Precision: stream.TrainingPrecision,
		Trace: true}
	s.State = s.NewState(seed)
	s.Fast, s.Grads = stream.NewArena(m), stream.NewArena(m)
	return s
}

// forward scores a chunk in a new segment, which follows the memory. It returns the chunk's mean
// loss in nats.
func (t *textStep) forward() float64 {
	t.begin()
	return t.score()
}

// begin calls Begin for all networks of the mixture. goOn and remember call Continue and Remember
// for these networks.
func (t *textStep) begin()    { t.each((*stream.Step).Begin) }
func (t *textStep) goOn()     { t.each((*stream.Step).Continue) }
func (t *textStep) remember() { t.each((*stream.Step).Remember) }

func (t *textStep) each(do func(*stream.Step)) {
	do(&t.Step)
	if t.mixer != nil && t.mixer.static != nil {
		do(t.mixer.static)
	}
}

// score returns the chunk's mean loss in nats. The caller must first call begin or goOn.
func (t *textStep) score() float64 {
	t.losses(len(t.targets))
	return t.mean()
}

// mean returns the mean of the last computed losses, in nats.
func (t *textStep) mean() float64 {
	sum := 0.0
	for _, v := range t.nll {
		sum += float64(v)
	}
	return sum / float64(len(t.nll))
}

// losses computes the losses of a chunk's first n tokens. The caller must first call begin or goOn.
func (t *textStep) losses(n int) {
	inputs, targets, nll := t.inputs[:n], t.targets[:n], t.nll[:n]
	if t.mixer == nil {
		t.Score(inputs, targets, nll)
		return
	}
	t.Score(inputs, nil, nil)
	t.mixer.score(&t.Step, inputs, targets, nll)
}

// backward computes the gradient of the mixture's loss or, without a companion, of the network's
// loss.
func (t *textStep) backward() {
	if t.mixer != nil {
		t.mixer.learnFrom(&t.Step, t.targets, 1)
	}
	t.Backward(t.targets)
}

// backwardOfInput computes the gradient G that the fast weights learn from. The parameter `done`
// says that backward was called for this chunk. Its gradient is then reused, unless the fast
// weights learn from another loss.
func (t *textStep) backwardOfInput(done bool) {
	switch {
	case t.mixer != nil && !(done && t.mixer.share == 1):
		t.mixer.learnFrom(&t.Step, t.targets, t.mixer.share)
	case done:
		return
	}
	t.Backward(t.targets)
}

// reset sets fast weights and gradient averages to zero, and the companion to its initial state.
func (t *textStep) reset() {
	if t.State != nil {
		t.State.Reset()
		clear(t.Fast.Values)
	}
	if t.mixer != nil {
		t.mixer.counts.Reset()
	}
}

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

func (t *textStep) saveMemory(c *checkpoint) { saveRows(c, "memory", t.Memory, t.rowSize()) }

func (t *textStep) loadMemory(c *checkpoint, rows int) {
	if most := t.Network.Config.MemLen; rows < 0 || rows > most {
		c.fail("memory has %d rows, expected 0 to %d", rows, most)
		return
	}
	loadRows(c, "memory", t.Memory, rows, t.rowSize())
}

// saveRows stores the used rows of every layer of a memory. A row has size elements.
func saveRows(c *checkpoint, name string, m *txl.Memory, size int) {
	for l, rows := range m.Layers {
		if rows != nil {
			c.put(fmt.Sprintf("%s.%d", name, l), rows[:m.Len*size])
		}
	}
}

// loadRows reads a memory with the given number of rows in every layer. A row has size elements.
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
