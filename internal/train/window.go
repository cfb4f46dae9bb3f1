package train

import (
	"fmt"

	"github.com/lmserve/lmserve/internal/kernel"
	"github.com/lmserve/lmserve/internal/model"
	"github.com/lmserve/lmserve/sparsemeta"
	"github.com/lmserve/lmserve/txl"
)

// window trains meta-learners by Algorithm 1: in windows of k chunks of a batch of streams that share M, the first k-1 write M under gamma
// 0, beta1 0, beta2 1 and a small p; from the loss of the k-th the meta-learners, and in a joint phase the slow weights, take one step.
// Then M and I go back to zero; the memory of the streams stays.
type window struct {
	trainee
	options  MetaOptions
	settings sparsemeta.Settings // of the writes
	reader   *batchReader
	writing  segment // of the first k-1 chunks
	learning segment // of the k-th
	mem      *txl.Memory
	fast     fastWeights
	writes   gradient // of a chunk that writes
	gradient gradient // of the k-th
}

// newWindow starts the scheme; joint is nil if the slow weights, which are trained already, stand still.
func newWindow(x *kernel.Exec, base *model.Model, c *Corpus, o MetaOptions, joint *JointOptions, seed uint64) (*window, error) {
	w := o.Window
	reader, err := newBatchReader(c, w.Batch, max(o.Chunk, w.GradientChunk), base.Tokenizer.Start(), 0, kernel.Key(seed, useOrder))
	if err != nil {
		return nil, err
	}
	m, meta, err := newMetaLearner(base, o, joint, seed, x.Threads())
	if err != nil {
		return nil, err
	}
	p := &window{
		trainee: trainee{x: x, lm: m.LM, meta: meta},
		options: o, reader: reader, settings: windowSettings(o),
		writing: newSegment(m.LM.Config, w.Batch, o.Chunk), learning: newSegment(m.LM.Config, w.Batch, w.GradientChunk),
		mem:  txl.NewMemory(m.LM.Config, w.Batch),
		fast: newFastWeights(m, kernel.Key(seed, useMasks)),
	}
	var all []float32
	if joint != nil {
		p.slow = newSlow(m.LM, joint.SlowOptions, joint.Steps, seed)
		all = p.slow.grads
	}
	p.writes, p.gradient = newGradient(m, &p.fast, nil), newGradient(m, &p.fast, all)
	return p, nil
}

// windowSettings are the paper's settings of training, for as many banks as serving has, with the output factor of serving.
func windowSettings(o MetaOptions) sparsemeta.Settings {
	s := sparsemeta.WindowSettings()
	s.Gammas = make([]float32, len(o.Settings.Gammas))
	s.P, s.Out = o.Window.P, o.Settings.Out
	return s
}

// step makes one window and the step of the optimisers. The loss it reports is that of the k-th chunk.
func (p *window) step() (outcome, error) {
	var o outcome
	p.write(&o)
	p.learn(&o)
	err := p.optimise(&o)
	p.fast.reset()
	return o, err
}

// write runs the first k-1 chunks, each of which writes M.
func (p *window) write(o *outcome) {
	for i := range p.options.Window.K - 1 {
		p.read(&p.writing, i, o)
		p.writes.backward(p.x, &p.writing)
		p.writing.seg.Remember(p.mem)
		p.fast.state.Update(p.x, p.meta.tables(), p.settings, nil, p.fast.grads, p.fast.sum)
	}
}

// learn runs the k-th chunk and takes from its loss the gradients of the meta-learners (and of the slow weights).
func (p *window) learn(o *outcome) {
	p.read(&p.learning, p.options.Window.K-1, o)
	p.gradient.backward(p.x, &p.learning)
	p.learning.seg.Remember(p.mem)
	p.meta.begin()
	p.meta.gather(p.x, &p.fast, 1)
}

// read runs the i'th chunk of the window.
func (p *window) read(text *segment, i int, o *outcome) {
	p.reader.Next(text.inputs, text.targets)
	if p.slow != nil {
		text.seg.SetDropout(p.slow.dropout(p.steps, i))
	}
	o.loss = text.forward(p.x, p.lm, p.fast.views, p.mem)
	o.tokens += len(text.targets)
}

func (p *window) describe() string {
	w := p.options.Window
	return fmt.Sprintf("windows, %s; a step is %d chunks of %d tokens and one of %d, of %d streams",
		p.meta.describe(p.slow), w.K-1, p.options.Chunk, w.GradientChunk, w.Batch)
}

// windowState is the part of the phase's state that is not arrays. Between two steps M and I are zero.
type windowState struct {
	Steps  int         `json:"steps"`
	Reader readerState `json:"reader"`
	Memory int         `json:"memory"` // rows
	Writes uint64      `json:"writes"` // updates of the fast weights made: the masks' time
}

func (p *window) save(s *snapshot) {
	s.putJSON(keyPhase, windowState{p.steps, p.reader.state, p.mem.Len, p.fast.state.Step})
	p.saveWeights(s)
	saveMemory(s, p.mem, p.options.Window.Batch*p.lm.Config.DModel)
}

func (p *window) load(s *snapshot) error {
	var st windowState
	s.getJSON(keyPhase, &st)
	p.loadWeights(s, st.Steps)
	loadMemory(s, p.mem, st.Memory, p.lm.Config, p.options.Window.Batch)
	if s.err != nil {
		return s.err
	}
	p.fast.state.Step = st.Writes
	p.fast.reset()
	return p.reader.restore(st.Reader)
}
