package train

import (
	"fmt"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/learning/train/corpus"
	"github.com/lmserve/lmserve/internal/learning/train/optim"
)

// onlineScheme trains meta-learners on one stream. The stream's gradient averages I and fast
// weights M change exactly as in serving. An optimizer step uses the losses of a few chunks. In a
// joint phase, the step also moves the slow weights; otherwise the slow weights are frozen.
type onlineScheme struct {
	trainee
	options MetaOptions
	text    textStep
	pieces  *corpus.Pieces
	mean    optim.Mean
	going   bool // the next chunk can continue the segment, which still contains the last chunk
	resets  uint64
}

// newOnline returns the online scheme at its start. The parameter joint is nil if the slow weights
// are frozen.
func newOnline(x *kernel.Exec, base *model.Model, c *corpus.Corpus, heldOut []string, o MetaOptions,
	joint *JointOptions, seed uint64) (*onlineScheme, error) {
	if err := c.Need(o.Chunk, "one chunk"); err != nil {
		return nil, err
	}
	m, meta, err := newMetaLearner(base, o, joint, seed, x.Threads())
	if err != nil {
		return nil, err
	}
	p := &onlineScheme{
		trainee: trainee{x: x, lm: m.LM, meta: meta}, options: o, resets: kernel.Key(seed,
			useReset),
		pieces: corpus.NewPieces(c, heldOut, o.Online.PieceMin, o.Online.PieceMax,
			m.Tokenizer.Start(), kernel.Key(seed, usePieces)),
	}
	step := newAdaptiveStep(x, m, 1, o.Settings, kernel.Key(seed, useMasks))
	if joint != nil {
		p.slow = newSlow(m.LM, joint.SlowOptions, joint.Steps, seed)
		step.All = stream.NewArenaOfAll(m.LM.Layout)
		p.mean = optim.Mean{Sum: p.slow.grads.Values, Factor: 1 / float32(o.Online.Chunks)}
	}
	p.text = newText(step, 1, o.Chunk)
	if o.Companion {
		p.text.mixer = newMixer(&p.text, m, o.Mixture)
	}
	return p, nil
}

func (p *onlineScheme) step() (Outcome, error) {
	var o Outcome
	p.meta.begin()
	if p.slow != nil {
		clear(p.slow.grads.Values)
	}
	for i := range p.options.Online.Chunks {
		o.Loss += p.chunk(i) / float64(p.options.Online.Chunks)
		o.Tokens += len(p.text.targets)
	}
	return o, p.optimize(&o)
}

// chunk scores the i'th chunk of a step and returns the mean loss in nats. It adds the gradients
// for the meta-learners and, in a joint phase, for the slow weights. Then it updates the fast
// weights (eqs. 3 to 6). The update comes last, as in a session, so that the chunk's loss does not
// depend on the update.
func (p *onlineScheme) chunk(i int) float64 {
	if p.pieces.Next(p.text.inputs, p.text.targets) && p.resetDue() {
		p.text.reset()
	}
	if p.slow != nil {
		p.text.Segment.SetDropout(p.slow.dropout(p.steps, i))
	}
	if p.going {
		p.text.goOn()
	} else {
		p.text.begin()
	}
	p.going = p.slow == nil // trained slow weights may change before the next chunk
	loss := p.text.score()
	p.text.backward()
	p.text.remember()
	p.meta.gather(&p.text.Step, p.options.Online.Sample)
	if p.slow != nil {
		p.mean.Add(p.x, p.text.All.Values)
	}
	p.text.backwardOfInput(true)
	p.write(&p.text)
	return loss
}

// resetDue decides, at the beginning of a piece of text, whether gradient averages I and fast
// weights M are set to zero. The decision depends on the seed and the piece's number.
func (p *onlineScheme) resetDue() bool {
	random := kernel.Bits(p.resets, p.pieces.State.Piece)
	return float64(random>>11)/(1<<53) < p.options.Online.Reset
}

func (p *onlineScheme) describe() string {
	text := fmt.Sprintf("online, %s; a step is %d chunks of %d tokens",
		p.meta.describe(p.slow), p.options.Online.Chunks, p.options.Chunk)
	if p.options.Companion {
		text += fmt.Sprintf("; with a companion: the mixture's loss has the weight %v in the "+
			"loss that the fast weights learn from",
			p.options.Mixture)
	}
	return text
}

type onlineState struct {
	Steps  int                `json:"steps"`
	Stream corpus.PiecesState `json:"stream"`
	Memory int                `json:"memory"` // number of memory rows in use
	// number of updates of the fast weights; it determines the next mask
	Writes uint64 `json:"writes"`
}

func (p *onlineScheme) save(c *checkpoint) {
	c.putJSON(keyPhase, onlineState{p.steps, p.pieces.State, p.text.Memory.Len, p.text.State.Step})
	p.saveWeights(c)
	c.putAll(p.text.fastArrays())
	p.text.saveMemory(c)
	if p.text.mixer != nil {
		p.text.mixer.save(c)
	}
}

func (p *onlineScheme) load(c *checkpoint) error {
	var st onlineState
	c.getJSON(keyPhase, &st)
	p.loadWeights(c, st.Steps)
	c.getAll(p.text.fastArrays())
	p.text.loadMemory(c, st.Memory)
	if p.text.mixer != nil {
		p.text.mixer.load(c, st.Memory)
	}
	if c.err != nil {
		return c.err
	}
	p.text.State.Step, p.going = st.Writes, false
	p.text.State.Sum(p.x.Vectors, p.text.Fast.Values)
	c.failWith(p.pieces.Restore(st.Stream))
	return c.err
}
