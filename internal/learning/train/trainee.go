package train

import (
	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
	"github.com/lmserve/lmserve/sparsemeta"
	"github.com/lmserve/lmserve/txl"
)

// trainee is the part of a phase that both schemes share: the weights, their optimizers and the
// number of steps made.
type trainee struct {
	x     *kernel.Exec
	lm    *txl.Model
	slow  *slow // nil if the slow weights are frozen
	meta  *metaLearner
	steps int
}

// optimize makes one step of the optimizers with the chunks' gradients, and completes the step's
// outcome. If the outcome has diverged, optimize changes no weight, and the training loop stops.
func (t *trainee) optimize(o *Outcome) (err error) {
	if o.Norm = t.meta.norm(); o.diverged() {
		return nil
	}
	if t.slow != nil {
		if o.SlowRate, o.Norm = t.slow.step(t.x, t.steps); o.diverged() {
			return nil
		}
	}
	o.Rate, err = t.meta.step(t.steps)
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

// write updates the fast weights from a chunk's gradient, with the current meta-learners.
func (t *trainee) write(text *textStep) {
	text.Tables = t.meta.tables()
	text.Update()
}

func (t *trainee) saveWeights(c *checkpoint) {
	c.put("slow", t.lm.W)
	if t.slow != nil {
		t.slow.save(c)
	}
	t.meta.save(c)
}

func (t *trainee) loadWeights(c *checkpoint, steps int) {
	t.steps = steps
	c.get("slow", t.lm.W)
	if t.slow != nil {
		t.slow.load(c, steps)
	}
	t.meta.load(c, steps)
}
