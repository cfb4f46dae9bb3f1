package train

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/learning/train/corpus"
	"github.com/lmserve/lmserve/sparsemeta"
	"github.com/lmserve/lmserve/weights"
)

type runner struct {
	o      Options
	x      *kernel.Exec
	base   *model.Model // model to train; the slow weights base.LM change in place
	text   *corpus.Corpus
	seen   *corpus.Corpus // text without the domains that are held out
	valid  *validator     // nil if there is no validation
	recipe Recipe
	at     position
	best   []array // copies of the trained weights at the best validation

	// writeFile is weights.WriteFile; tests replace it to simulate a faulty disk.
	writeFile func(string, *weights.File, weights.WriteOptions) error

	saved int // step of the phase in the last checkpoint
	// step of the phase in the best checkpoint; -1 until this process writes a best checkpoint in
	// the phase
	bestSaved int
}

func (r *runner) file(name string) string { return filepath.Join(r.o.Dir, name) }

func (r *runner) tell(e Event) error {
	if r.o.Observer == nil {
		return nil
	}
	return r.o.Observer.Observe(e)
}

func (r *runner) note(format string, args ...any) error {
	return r.tell(Noted{fmt.Sprintf(format, args...)})
}

func (r *runner) standing(p stepper) Standing {
	return Standing{Phase: r.at.Phase, Step: r.at.Step, Steps: p.length(), Tokens: r.at.Tokens,
		Loss: r.at.Loss}
}

func (r *runner) newPhase(name string) (stepper, error) {
	o := &r.o
	seed := o.Seed
	var joint *JointOptions
	switch name {
	case PhasePretrain:
		return newPretrain(r.x, r.base.LM, r.seen, r.base.Tokenizer.Start(), o.Pretrain, seed)
	case PhaseJoint:
		// With a separate seed, PhaseJoint does not read the text in the order of PhaseMeta.
		joint, seed = &o.Joint, kernel.Key(seed, useJoint)
	}
	if o.Meta.Scheme == SchemeWindow {
		return newWindow(r.x, r.base, r.text, o.Meta, joint, seed)
	}
	return newOnline(r.x, r.base, r.text, o.HoldOut, o.Meta, joint, seed)
}

// model returns the current model, which shares the run's weights.
func (r *runner) model(learner *sparsemeta.Learner) (*model.Model, error) {
	m, err := model.NewOf(r.base.Tokenizer, r.o.Name, r.base.LM, learner, r.o.Meta.Chunk, nil)
	if err != nil {
		return nil, err
	}
	m.Arithmetic, m.Rivals = r.base.Arithmetic, r.base.Rivals
	m.CompanionBytes = cmp.Or(r.o.Meta.CompanionBytes, r.base.CompanionBytes)
	m.CompanionAlone = r.o.Meta.CompanionAlone || r.base.CompanionAlone
	if learner != nil {
		m.Mixture = r.o.Meta.Mixture
	}
	if learner != nil && learner.Normal != nil {
		m.Statistics = r.base.Statistics
	}
	return m, nil
}

func (r *runner) keepBest(p stepper) {
	r.best = r.best[:0]
	for _, a := range p.trained() {
		r.best = append(r.best, array{a.name, slices.Clone(a.data)})
	}
}

func (r *runner) takeBest(p stepper) {
	if r.at.Best == nil {
		return
	}
	for i, a := range p.trained() {
		copy(a.data, r.best[i].data)
	}
}

func (r *runner) report() Report {
	phases := slices.Clone(r.at.Done)
	if r.at.Phase != "" {
		phases = append(phases, r.at.report())
	}
	return Report{Unit: r.unit(), Phases: phases}
}

func (r *runner) unit() Unit { return unitOf(r.base.OfWords()) }

// interrupted returns the error of a run that was interrupted after a step. If the run writes
// checkpoints, the last checkpoint contains this step.
func (r *runner) interrupted(ctx context.Context, phase string, step int) *InterruptedError {
	e := &InterruptedError{Phase: phase, Step: step, Cause: context.Cause(ctx)}
	if r.o.Dir != "" {
		e.Checkpoint = r.file(lastName)
	}
	return e
}

// lastCheckpoint names the last checkpoint, as an addition to an error message. The result is ""
// without a checkpoint.
func (r *runner) lastCheckpoint() string {
	if r.o.Dir == "" || r.saved == 0 {
		return ""
	}
	return fmt.Sprintf("; %s has step %d", r.file(lastName), r.saved)
}
