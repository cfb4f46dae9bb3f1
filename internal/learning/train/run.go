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
	base   *model.Model // slow weights and tokenizer; its LM is trained in place
	text   *corpus.Corpus
	seen   *corpus.Corpus // text without the domains that are held out
	valid  *validator     // nil if there is no validation
	recipe Recipe
	at     position
	best   []array // the trained arrays at position.Best

	// writeFile is weights.WriteFile; tests replace it with a faulty disk.
	writeFile func(string, *weights.File, weights.WriteOptions) error

	saved     int // step of the phase in the last checkpoint
	bestSaved int // step of the phase in the best checkpoint; -1 if this run has written none
}

// file returns the path of a file in the folder of the checkpoints.
func (r *runner) file(name string) string { return filepath.Join(r.o.Dir, name) }

// tell passes an event to the observer, if there is one.
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

// newPhase makes a phase of the run, at its first step.
func (r *runner) newPhase(name string) (stepper, error) {
	o := &r.o
	seed := o.Seed
	var joint *JointOptions
	switch name {
	case PhasePretrain:
		return newPretrain(r.x, r.base.LM, r.seen, r.base.Tokenizer.Start(), o.Pretrain, seed)
	case PhaseJoint:
		// Another seed, so that PhaseJoint does not repeat PhaseMeta's order of the text.
		joint, seed = &o.Joint, kernel.Key(seed, useJoint)
	}
	if o.Meta.Scheme == SchemeWindow {
		return newWindow(r.x, r.base, r.text, o.Meta, joint, seed)
	}
	return newOnline(r.x, r.base, r.text, o.HoldOut, o.Meta, joint, seed)
}

// model returns the current model, sharing its weights.
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

// takeBest gives the phase the best weights, if there was a validation.
func (r *runner) takeBest(p stepper) {
	if r.at.Best == nil {
		return
	}
	for i, a := range p.trained() {
		copy(a.data, r.best[i].data)
	}
}

// report returns the report of a run that ends here; the current phase is its last.
func (r *runner) report() Report {
	phases := slices.Clone(r.at.Done)
	if r.at.Phase != "" {
		phases = append(phases, r.at.report())
	}
	return Report{Unit: r.unit(), Phases: phases}
}

func (r *runner) unit() Unit { return unitOf(r.base.OfWords()) }

// interrupted returns the error of a run that stopped after a step. If there are checkpoints, the
// step is in the last one.
func (r *runner) interrupted(ctx context.Context, phase string, step int) *InterruptedError {
	e := &InterruptedError{Phase: phase, Step: step, Cause: context.Cause(ctx)}
	if r.o.Dir != "" {
		e.Checkpoint = r.file(lastName)
	}
	return e
}

// lastCheckpoint says what remains of a run that failed.
func (r *runner) lastCheckpoint() string {
	if r.o.Dir == "" || r.saved == 0 {
		return ""
	}
	return fmt.Sprintf("; %s has step %d", r.file(lastName), r.saved)
}
