package train

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lmserve/lmserve/internal/learning/train/corpus"
	"github.com/lmserve/lmserve/txl"
)

// A rehearsal repeats a training step at most rehearsals times, and starts no repetition after
// rehearsalTime. It tries a validation on rehearsalTokens tokens.
const (
	rehearsals      = 4
	rehearsalTime   = 500 * time.Millisecond
	rehearsalTokens = 1024
)

// prepare rehearses every remaining phase, and reports what the run will do. Without a rehearsal,
// an error in a later phase would be found only after hours. prepare changes nothing. If ctx ends,
// prepare returns early, and the training loop handles the interruption.
func (r *runner) prepare(ctx context.Context, names []string) error {
	if err := r.note("%s", r.describeText()); err != nil {
		return err
	}
	for i, name := range names {
		steps := 0
		if i == 0 {
			steps = r.at.Step
		}
		if err := r.rehearse(ctx, name, steps); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return nil
		}
	}
	if err := r.tell(Ready{}); err != nil || r.o.Dir != "" {
		return err
	}
	return r.note("no folder for checkpoints is given: if the run is interrupted, its results " +
		"are lost")
}

func (r *runner) describeText() string {
	text := fmt.Sprintf("text: %s in %s", r.text, r.o.Data)
	if len(r.o.HoldOut) > 0 {
		text += ", of which pretraining does not see " + strings.Join(r.o.HoldOut, ", ")
	}
	switch {
	case r.valid == nil:
		return text + "; no validation"
	case r.recipe.KeptBack:
		return text + "; validation on " + r.valid.text.String() + ", kept back from it"
	}
	return text + "; validation on " + r.valid.text.String() + " in " + r.o.Valid
}

// rehearse tries a phase on a copy of the model, and reports the phase's plan. The parameter made
// is the number of steps that are already made.
func (r *runner) rehearse(ctx context.Context, name string, made int) (err error) {
	trial := *r
	base := *r.base
	if base.LM, err = txl.NewModel(base.LM.Config); err != nil {
		return err
	}
	copy(base.LM.W, r.base.LM.W)
	trial.base = &base
	p, err := trial.newPhase(name)
	if err != nil {
		return err
	}
	told := r.tell(Planned{
		Phase: name, Description: p.describe(), Steps: p.length(), Made: made,
		Estimate: func() (time.Duration, error) { return trial.estimate(ctx, p, made) },
	})
	return errors.Join(told, p.close())
}

// estimate tries a few steps of a phase. It returns the expected time of the phase's steps and
// validations that remain after step number `from`.
func (r *runner) estimate(ctx context.Context, p stepper, from int) (time.Duration, error) {
	step, err := timed(ctx, func() error { _, err := p.step(); return err })
	if err != nil || ctx.Err() != nil {
		return 0, err
	}
	spent := step * time.Duration(p.length()-from)
	if r.valid == nil {
		return spent, nil
	}
	times := p.length()/r.validationEvery(p) - from/r.validationEvery(p)
	one, err := r.timeValidation(ctx, p)
	return spent + one*time.Duration(max(1, times)), err
}

// timed returns the shortest time of several calls. It makes fewer calls if they take long, or if
// ctx ends.
func timed(ctx context.Context, call func() error) (best time.Duration, err error) {
	for i, begin := 0, time.Now(); i < rehearsals && ctx.Err() == nil &&
		(i == 0 || time.Since(begin) < rehearsalTime); i++ {
		start := time.Now()
		if err := call(); err != nil {
			return 0, err
		}
		if took := time.Since(start); i == 0 || took < best {
			best = took
		}
	}
	return best, nil
}

func (r *runner) timeValidation(ctx context.Context, p stepper) (time.Duration, error) {
	m, err := r.model(p.learner())
	if err != nil {
		return 0, err
	}
	doc := r.valid.text.Documents[0].Head(rehearsalTokens)
	small := *r.valid
	small.text = &corpus.Corpus{Documents: []corpus.Document{doc}}
	took, err := timed(ctx, func() error {
		_, err := small.measure(ctx, m, nil)
		return err
	})
	if err != nil && ctx.Err() == nil { // the training loop handles interruptions
		return 0, err
	}
	return time.Duration(float64(took) / float64(doc.Len()) * float64(r.valid.text.Tokens())), nil
}
