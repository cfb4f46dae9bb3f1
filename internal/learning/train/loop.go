package train

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/lmserve/lmserve/internal/learning/train/optim"
)

// validationsDefault is the number of validations in a phase if the options give no interval.
const validationsDefault = 10

// loop makes the remaining steps of a phase. Between steps it validates, writes a checkpoint, and
// checks for an interruption, in this order.
func (r *runner) loop(ctx context.Context, p stepper) (err error) {
	if err := r.tell(Begun{r.standing(p)}); err != nil {
		return err
	}
	defer func() {
		err = cmp.Or(err, r.tell(Ended{r.standing(p), r.at.Stale, err}))
	}()
	var static *float64 // score of the static model, reused while the slow weights are frozen
	r.saved, r.bestSaved = r.at.Step, -1
	for {
		if r.validationDue(p) {
			v, err := r.validate(ctx, p, static)
			if ctx.Err() != nil {
				return r.saveInterrupted(ctx, p)
			}
			if err != nil {
				return err
			}
			if p.frozen() {
				static = &v.Static
			}
		}
		patience := r.o.Validation.Patience
		end := r.at.Step == p.length() || patience > 0 && r.at.Stale >= patience
		due := end || r.at.Step%r.o.CheckpointEvery == 0
		if r.bestUnsaved() || due && r.at.Step != r.saved {
			if err := r.save(p); err != nil {
				return err
			}
		}
		if end {
			return nil
		}
		if ctx.Err() != nil {
			return r.saveInterrupted(ctx, p)
		}
		if err := r.stepOnce(p); err != nil {
			return err
		}
	}
}

func (r *runner) stepOnce(p stepper) error {
	out, err := p.step()
	if err != nil {
		return fmt.Errorf("train: phase %s, step %d: %w", r.at.Phase, r.at.Step, err)
	}
	if out.diverged() {
		return fmt.Errorf("%w: phase %s, step %d: loss %v, gradient norm %v: try a lower "+
			"learning rate, a longer warm-up or stronger clipping%s",
			ErrDiverged, r.at.Phase, r.at.Step, out.Loss, out.Norm, r.lastCheckpoint())
	}
	r.at.stepped(out)
	return r.tell(Stepped{r.standing(p), out})
}

func (r *runner) validate(ctx context.Context, p stepper, static *float64) (v Measurement,
	err error) {
	began := time.Now()
	m, err := r.model(p.learner())
	if err != nil {
		return v, err
	}
	if v, err = r.valid.measure(ctx, m, static); err != nil {
		return v, err
	}
	if !optim.Finite(v.score()) {
		return v, fmt.Errorf("%w: phase %s, step %d: the validation loss is %v: try a lower "+
			"learning rate%s", ErrDiverged, r.at.Phase, r.at.Step, v.score(), r.lastCheckpoint())
	}
	v.Step = r.at.Step
	best := r.at.validated(v)
	if best {
		r.keepBest(p)
	}
	return v, r.tell(Validated{r.standing(p), v, best, time.Since(began)})
}

func (r *runner) validationDue(p stepper) bool {
	switch {
	case r.valid == nil || r.at.Validated == r.at.Step:
		return false
	case r.at.Step == p.length():
		return true
	case r.at.Step == 0: // the initial weights may remain the best
		return r.o.Validation.Every >= 0 && (r.o.Init != "" || len(r.at.Done) > 0)
	}
	return r.at.Step%r.validationEvery(p) == 0
}

func (r *runner) validationEvery(p stepper) int {
	switch every := r.o.Validation.Every; {
	case every > 0:
		return every
	case every < 0:
		return p.length()
	}
	return (p.length() + validationsDefault - 1) / validationsDefault
}
