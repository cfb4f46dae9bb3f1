package train

import (
	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
	"github.com/lmserve/lmserve/sparsemeta"
	"github.com/lmserve/lmserve/txl"
)

// trainee is what both schemes train, and how far they have come: the part of a phase that does not
// depend on the scheme.
type trainee struct {
	x     *kernel.Exec
	lm    *txl.Model
	slow  *slow // nil while the slow weights stand still
	meta  *metaLearner
	steps int // steps made
}

// optimise moves the weights by the gradients that the chunks have left, and completes the outcome
// of the step. If the outcome is not finite, optimise moves nothing: the loop gives up.
func (t *trainee) optimise(o *Outcome) (err error) {
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

// write lets a chunk's gradient write the fast weights, by the meta-learners as they are now.
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

// loadWeights restores the weights and their optimisers as they were after so many steps.
func (t *trainee) loadWeights(c *checkpoint, steps int) {
	t.steps = steps
	c.get("slow", t.lm.W)
	if t.slow != nil {
		t.slow.load(c, steps)
	}
	t.meta.load(c, steps)
}
