package train

import (
	"fmt"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/learning/train/corpus"
	"github.com/lmserve/lmserve/sparsemeta"
)

// windowScheme trains meta-learners by Algorithm 1 of the paper on Sparse Meta Networks. The
// streams of a batch share fast weights. In a window of k chunks, the first k-1 chunks write the
// fast weights, with the settings that windowSettings returns. The loss of the last chunk trains
// the meta-learners and, in PhaseJoint, the slow weights. Then fast weights and gradient averages
// are set to zero, but the memory of the streams is kept.
type windowScheme struct {
	trainee
	options  MetaOptions
	reader   *corpus.Reader
	writing  textStep // step for the first k-1 chunks
	learning textStep // step for the last chunk; it shares memory and fast weights with writing
}

// newWindow starts the window scheme. The parameter joint is nil if the slow weights are frozen.
func newWindow(x *kernel.Exec, base *model.Model, c *corpus.Corpus, o MetaOptions,
	joint *JointOptions, seed uint64) (*windowScheme, error) {
	w := o.Window
	reader, err := corpus.NewReader(c, w.Batch, max(o.Chunk, w.GradientChunk),
		base.Tokenizer.Start(), 0, kernel.Key(seed, useOrder))
	if err != nil {
		return nil, err
	}
	m, meta, err := newMetaLearner(base, o, joint, seed, x.Threads())
	if err != nil {
		return nil, err
	}
	p := &windowScheme{trainee: trainee{x: x, lm: m.LM, meta: meta}, options: o, reader: reader}
	step := newAdaptiveStep(x, m, w.Batch, windowSettings(o), kernel.Key(seed, useMasks))
	p.writing = newText(step, w.Batch, o.Chunk)
	if joint != nil {
		p.slow = newSlow(m.LM, joint.SlowOptions, joint.Steps, seed)
		step.All = p.slow.grads
	}
	p.learning = newText(step, w.Batch, w.GradientChunk)
	return p, nil
}

// windowSettings returns the training settings of the paper on Sparse Meta Networks. The number of
// banks and the output factor come from the settings of serving.
func windowSettings(o MetaOptions) sparsemeta.Settings {
	s := sparsemeta.WindowSettings()
	s.Gammas = make([]float32, len(o.Settings.Gammas))
	s.P, s.Out = o.Window.P, o.Settings.Out
	return s
}

// step runs one window, and makes one step of the optimizers. The reported loss is the loss of the
// last chunk.
func (p *windowScheme) step() (Outcome, error) {
	var o Outcome
	p.writeFast(&o)
	p.learn(&o)
	err := p.optimize(&o)
	p.writing.reset()
	return o, err
}

func (p *windowScheme) writeFast(o *Outcome) {
	for i := range p.options.Window.K - 1 {
		p.read(&p.writing, i, o)
		p.writing.Backward(p.writing.targets)
		p.writing.Remember()
		p.write(&p.writing)
	}
}

// learn runs the last chunk, and computes the gradients of the meta-learners and of unfrozen slow
// weights.
func (p *windowScheme) learn(o *Outcome) {
	p.read(&p.learning, p.options.Window.K-1, o)
	p.learning.Backward(p.learning.targets)
	p.learning.Remember()
	p.meta.begin()
	p.meta.gather(&p.learning.Step, 1)
}

func (p *windowScheme) read(text *textStep, i int, o *Outcome) {
	p.reader.Next(text.inputs, text.targets)
	if p.slow != nil {
		text.Segment.SetDropout(p.slow.dropout(p.steps, i))
	}
	o.Loss = text.forward()
	o.Tokens += len(text.targets)
}

func (p *windowScheme) describe() string {
	w := p.options.Window
	return fmt.Sprintf("windows, %s; a step is %d chunks of %d tokens and one of %d, of %d streams",
		p.meta.describe(p.slow), w.K-1, p.options.Chunk, w.GradientChunk, w.Batch)
}

// windowState is the state of the window scheme without its arrays. Fast weights and gradient
// averages are not saved, because they are zero between two steps.
type windowState struct {
	Steps  int                `json:"steps"`
	Reader corpus.ReaderState `json:"reader"`
	Memory int                `json:"memory"` // rows of the memory in use
	// number of updates of the fast weights so far, which determines the next masks
	Writes uint64 `json:"writes"`
}

func (p *windowScheme) save(c *checkpoint) {
	c.putJSON(keyPhase, windowState{p.steps, p.reader.State, p.writing.Memory.Len,
		p.writing.State.Step})
	p.saveWeights(c)
	p.writing.saveMemory(c)
}

func (p *windowScheme) load(c *checkpoint) error {
	var st windowState
	c.getJSON(keyPhase, &st)
	p.loadWeights(c, st.Steps)
	p.writing.loadMemory(c, st.Memory)
	if c.err != nil {
		return c.err
	}
	p.writing.State.Step = st.Writes
	p.writing.reset()
	c.failWith(p.reader.Restore(st.Reader))
	return c.err
}
