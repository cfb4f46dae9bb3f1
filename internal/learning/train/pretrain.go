package train

import (
	"fmt"

	"github.com/dustin/go-humanize"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
	"github.com/lmserve/lmserve/internal/learning/train/corpus"
	"github.com/lmserve/lmserve/sparsemeta"
	"github.com/lmserve/lmserve/txl"
)

type pretraining struct {
	options PretrainOptions
	x       *kernel.Exec
	lm      *txl.Model
	slow    *slow
	reader  *corpus.Reader
	text    textStep
	size    string
	counted *counted // nil if there are no companions
	tokens  int
	steps   int
}

// newPretrain starts pretraining. The field Segment of the options must be set.
func newPretrain(x *kernel.Exec, lm *txl.Model, c *corpus.Corpus, first int32, o PretrainOptions,
	seed uint64) (*pretraining, error) {
	reader, err := corpus.NewReader(c, o.Batch, o.Segment, first, o.Balance,
		kernel.Key(seed, useOrder))
	if err != nil {
		return nil, err
	}
	p := &pretraining{options: o, x: x, lm: lm, slow: newSlow(lm, o.SlowOptions, o.Steps, seed),
		reader: reader, tokens: c.Tokens(),
		size: humanize.Comma(int64(c.Tokens())) + " " + c.Unit()}
	step := newStep(x, lm, o.Batch)
	step.All = p.slow.grads
	p.text = newText(step, o.Batch, o.Segment)
	if o.Companion > 0 {
		p.counted = newCounted(x, o.Batch, o.Segment, o.Companion)
		p.text.Logits = p.counted.logits
	}
	return p, nil
}

func (p *pretraining) step() (Outcome, error) {
	p.reader.Next(p.text.inputs, p.text.targets)
	p.text.Segment.SetDropout(p.slow.dropout(p.steps, 0))
	o := Outcome{Loss: p.forward(), Tokens: len(p.text.targets)}
	p.text.Backward(p.text.targets)
	p.text.Remember()
	o.Rate, o.Norm = p.slow.step(p.x, p.steps)
	p.steps++
	return o, nil
}

// forward reads the next segment of every stream, and returns the mean loss in nats. With
// companions, this is the loss of the mixture.
func (p *pretraining) forward() float64 {
	if p.counted == nil {
		return p.text.forward()
	}
	p.counted.begin(p.steps, p.options.Segment)
	p.text.Begin()
	p.text.Score(p.text.inputs, nil, nil)
	p.counted.score(p.x, p.text.Segment, p.text.targets, p.text.nll)
	return p.text.mean()
}

func (p *pretraining) length() int                  { return p.options.Steps }
func (p *pretraining) trained() []array             { return []array{{"slow", p.lm.W}} }
func (p *pretraining) learner() *sparsemeta.Learner { return nil }
func (p *pretraining) frozen() bool                 { return false }
func (p *pretraining) close() error                 { return nil }

func (p *pretraining) describe() string {
	o := &p.options
	text := fmt.Sprintf(
		"%s weights; a step is %d streams of %d tokens, %.3g times through %s in all",
		humanize.Comma(int64(len(p.lm.W))), o.Batch, o.Segment,
		float64(o.Steps*o.Batch*o.Segment)/float64(p.tokens), p.size)
	if p.counted != nil {
		text += fmt.Sprintf("; with companions: the mixture's loss has the weight %v in the "+
			"training loss",
			o.Companion)
	}
	return text
}

// pretrainState is the state of pretraining without its arrays.
type pretrainState struct {
	Steps  int                `json:"steps"`
	Reader corpus.ReaderState `json:"reader"`
	Memory int                `json:"memory"` // rows of the memory in use
}

func (p *pretraining) save(c *checkpoint) {
	c.putJSON(keyPhase, pretrainState{p.steps, p.reader.State, p.text.Memory.Len})
	c.putAll(p.trained())
	p.slow.save(c)
	p.text.saveMemory(c)
	if p.counted != nil {
		p.counted.save(c)
	}
}

func (p *pretraining) load(c *checkpoint) error {
	var st pretrainState
	c.getJSON(keyPhase, &st)
	c.getAll(p.trained())
	p.slow.load(c, st.Steps)
	p.text.loadMemory(c, st.Memory)
	if p.counted != nil {
		p.counted.load(c)
	}
	if c.err != nil {
		return c.err
	}
	p.steps = st.Steps
	c.failWith(p.reader.Restore(st.Reader))
	return c.err
}
