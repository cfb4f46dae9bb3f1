package train

import (
	"github.com/lmserve/lmserve/internal/kernel"
	"github.com/lmserve/lmserve/internal/model"
	"github.com/lmserve/lmserve/sparsemeta"
	"github.com/lmserve/lmserve/txl"
)

// trainee is what both schemes train, and how far they have come. It is the part of a phase that does not depend on the scheme.
type trainee struct {
	x     *kernel.Exec
	lm    *txl.Model
	slow  *slow // nil while the slow weights stand still
	meta  *metaLearner
	steps int // made
}

// optimise makes the step of the optimisers from the gradients that the chunks have left, and completes what the step did. It moves nothing
// if that is not finite: the caller of step gives up.
func (t *trainee) optimise(o *outcome) (err error) {
	if o.norm = t.meta.norm(); !o.finite() {
		return nil
	}
	if t.slow != nil {
		if o.slowRate, o.norm = t.slow.step(t.x, t.steps); !o.finite() {
			return nil
		}
	}
	o.rate, err = t.meta.step(t.steps)
	t.steps++
	return err
}

func (t *trainee) length() int                  { return t.meta.schedule.Steps }
func (t *trainee) learner() *sparsemeta.Learner { return t.meta.learner }
func (t *trainee) frozen() bool                 { return t.slow == nil }
func (t *trainee) close() error                 { return t.meta.close() }

func (t *trainee) trained() []array {
	if t.slow == nil {
		return t.meta.arrays()
	}
	return append([]array{{"slow", t.lm.W}}, t.meta.arrays()...)
}

func (t *trainee) saveWeights(s *snapshot) {
	s.put("slow", t.lm.W)
	if t.slow != nil {
		t.slow.save(s)
	}
	t.meta.save(s)
}

// loadWeights restores them as they were after so many steps.
func (t *trainee) loadWeights(s *snapshot, steps int) {
	t.steps = steps
	s.get("slow", t.lm.W)
	if t.slow != nil {
		t.slow.load(s, steps)
	}
	t.meta.load(s, steps)
}

// fastWeights is the state of the branches, as a stream has it, with its gradients.
type fastWeights struct {
	state *sparsemeta.State // traced
	sum   []float32         // its fast weights
	views txl.Fast          // of sum
	grads []float32         // dL/d(W+M), an arena of the branches
	into  txl.Grads         // views of grads
}

func newFastWeights(m *model.Model, seed uint64) fastWeights {
	f := fastWeights{state: sparsemeta.NewState(m.Learner.Branches, len(m.Learner.Phi), seed, kernel.Float32)}
	f.state.Trace()
	f.sum, f.grads = make([]float32, m.ArenaSize()), make([]float32, m.ArenaSize())
	f.views, f.into = m.Views(f.sum), m.Views(f.grads)
	return f
}

// reset puts I and M back to zero.
func (f *fastWeights) reset() {
	f.state.Reset()
	clear(f.sum)
}

// gradient is where one backward pass of a phase that trains meta-learners puts what it finds: the branches' gradients alone while the
// slow weights stand still, those of all weights in a joint phase.
type gradient struct {
	fast     *fastWeights
	all      []float32   // dL/dW of all slow weights, in the layout of lm.W; nil while they stand still
	into     txl.Grads   // of all, or of fast.grads
	branches [][]float32 // the branches' parts of all, in the order of the arena
}

// newGradient returns a place for gradients; all has the size of lm.W, or is nil.
func newGradient(m *model.Model, f *fastWeights, all []float32) gradient {
	g := gradient{fast: f, all: all, into: f.into}
	if all == nil {
		return g
	}
	g.into = m.LM.Layout.Slices(all)
	for _, b := range m.Learner.Branches {
		g.branches = append(g.branches, g.into[m.LM.Layout.Index(b.Name)])
	}
	return g
}

// backward runs the segment's backward pass; fast.grads has the branches' gradients in any case: dL/dM is dL/d(W+M).
func (g *gradient) backward(x *kernel.Exec, s *segment) {
	s.seg.Backward(x, s.targets, g.into)
	at := 0
	for _, branch := range g.branches {
		at += copy(g.fast.grads[at:], branch)
	}
}

// sumTask adds a multiple of a gradient to another, block by block.
type sumTask struct {
	sum, g []float32
	factor float32
}

// Do adds block i.
func (t *sumTask) Do(w *kernel.Exec, i int) {
	lo, hi := i*adamBlock, min((i+1)*adamBlock, len(t.g))
	w.Axpy(t.sum[lo:hi], t.factor, t.g[lo:hi])
}
