package train

import (
	"fmt"

	"github.com/lmserve/lmserve/internal/kernel"
	"github.com/lmserve/lmserve/internal/model"
	"github.com/lmserve/lmserve/txl"
)

// online trains meta-learners on one stream: I and M are carried under exactly the settings of serving, and the meta-learners take a step
// from the losses of every few chunks. The slow weights stand still or, in a joint phase, take a step from the same losses.
type online struct {
	trainee  // the slow weights' gradient is the mean over the chunks of a step
	options  MetaOptions
	text     segment
	stream   *pieceStream
	mem      *txl.Memory
	fast     fastWeights
	gradient gradient // of one chunk
	sum      sumTask
	going    bool   // the segment holds the chunk before the next one
	resets   uint64 // key of the decisions to reset
}

// newOnline starts the scheme; joint is nil if the slow weights, which are trained already, stand still.
func newOnline(x *kernel.Exec, base *model.Model, c *Corpus, heldOut []string, o MetaOptions, joint *JointOptions, seed uint64) (*online, error) {
	if err := c.need(o.Chunk, "one chunk"); err != nil {
		return nil, err
	}
	m, meta, err := newMetaLearner(base, o, joint, seed, x.Threads())
	if err != nil {
		return nil, err
	}
	p := &online{
		trainee: trainee{x: x, lm: m.LM, meta: meta},
		options: o, text: newSegment(m.LM.Config, 1, o.Chunk), mem: txl.NewMemory(m.LM.Config, 1),
		stream: newPieceStream(c, heldOut, o.Online.PieceMin, o.Online.PieceMax, m.Tokenizer.Start(), kernel.Key(seed, usePieces)),
		fast:   newFastWeights(m, kernel.Key(seed, useMasks)), resets: kernel.Key(seed, useReset),
	}
	var all []float32
	if joint != nil {
		p.slow = newSlow(m.LM, joint.SlowOptions, joint.Steps, seed)
		all = make([]float32, len(m.LM.W))
		p.sum = sumTask{sum: p.slow.grads, g: all, factor: 1 / float32(o.Online.Chunks)}
	}
	p.gradient = newGradient(m, &p.fast, all)
	return p, nil
}

// step runs the chunks of one step of the optimisers and makes it.
func (p *online) step() (outcome, error) {
	var o outcome
	p.meta.begin()
	if p.slow != nil {
		clear(p.slow.grads)
	}
	for i := range p.options.Online.Chunks {
		o.loss += p.chunk(i) / float64(p.options.Online.Chunks)
		o.tokens += len(p.text.targets)
	}
	return o, p.optimise(&o)
}

// chunk scores the i'th chunk of a step, adds what its loss says of the meta-learners (and of the slow weights), and only then lets it
// write the fast weights (eqs. 3-6): as a session would, so that no loss sees the write it causes. It returns the mean loss in nats.
func (p *online) chunk(i int) float64 {
	if p.stream.Next(p.text.inputs, p.text.targets) && p.resetDue() {
		p.fast.reset()
	}
	if p.slow != nil {
		p.text.seg.SetDropout(p.slow.dropout(p.steps, i))
	}
	if p.going {
		p.text.seg.Continue(p.x)
	} else {
		p.text.seg.Begin(p.x, p.lm, p.fast.views, p.mem)
	}
	p.going = p.slow == nil // else the next chunk's weights may be others
	loss := p.text.score(p.x)
	p.gradient.backward(p.x, &p.text)
	p.text.seg.Remember(p.mem)
	p.meta.gather(p.x, &p.fast, p.options.Online.Sample)
	if p.slow != nil {
		p.x.Parallel(adamBlocks(len(p.sum.g)), &p.sum)
	}
	p.fast.state.Update(p.x, p.meta.tables(), p.options.Settings, nil, p.fast.grads, p.fast.sum)
	return loss
}

// resetDue decides whether M and I go back to zero at the piece that has just begun: a function of the seed and the piece's number.
func (p *online) resetDue() bool {
	random := kernel.Bits(p.resets, p.stream.state.Piece)
	return float64(random>>11)/(1<<53) < p.options.Online.Reset
}

func (p *online) describe() string {
	return fmt.Sprintf("online, %s; a step is %d chunks of %d tokens", p.meta.describe(p.slow), p.options.Online.Chunks, p.options.Chunk)
}

// onlineState is the part of the phase's state that is not arrays.
type onlineState struct {
	Steps  int        `json:"steps"`
	Stream pieceState `json:"stream"`
	Memory int        `json:"memory"` // rows
	Writes uint64     `json:"writes"` // updates of the fast weights made: the masks' time
}

func (p *online) save(s *snapshot) {
	s.putJSON(keyPhase, onlineState{p.steps, p.stream.state, p.mem.Len, p.fast.state.Step})
	p.saveWeights(s)
	putAll(s, p.fast.arrays())
	saveMemory(s, p.mem, p.lm.Config.DModel)
}

func (p *online) load(s *snapshot) error {
	var st onlineState
	s.getJSON(keyPhase, &st)
	p.loadWeights(s, st.Steps)
	getAll(s, p.fast.arrays())
	loadMemory(s, p.mem, st.Memory, p.lm.Config, 1)
	if s.err != nil {
		return s.err
	}
	p.fast.state.Step, p.going = st.Writes, false
	p.fast.state.Sum(p.x.Vectors, p.fast.sum)
	return p.stream.restore(st.Stream)
}

// arrays are all arrays of the state, by name.
func (f *fastWeights) arrays() []array {
	var all []array
	for bank := range f.state.M {
		all = append(all,
			array{fmt.Sprintf("fast.i.%d", bank), f.state.I[bank].F32},
			array{fmt.Sprintf("fast.m.%d", bank), f.state.M[bank].F32},
			array{fmt.Sprintf("fast.x.%d", bank), f.state.X[bank]})
	}
	return all
}
