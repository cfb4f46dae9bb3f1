package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"time"

	"github.com/lmserve/lmserve/internal/kernel"
	"github.com/lmserve/lmserve/internal/model"
	"github.com/lmserve/lmserve/sparsemeta"
	"github.com/lmserve/lmserve/weights"
)

// run is a run under way.
type run struct {
	o       Options
	x       *kernel.Exec
	base    *model.Model // slow weights and tokenizer; its LM is trained in place
	text    *Corpus
	seen    *Corpus    // text without the domains that are held out
	valid   *validator // nil: no validation
	record  runRecord
	metrics *metrics
	at      position
	best    []array // the trained arrays at position.Best

	keptBack     bool   // the validation text is a part of Options.Data
	foundLearner string // what becomes of the meta-learners of Options.Init

	writeFile func(string, *weights.File, weights.WriteOptions) error // weights.WriteFile, or a disk with a fault

	saved     int // step of the phase that the last checkpoint has
	bestSaved int // step of the phase that the best checkpoint has; -1: none that this run wrote
}

// Run trains as the options say and returns what it did. If ctx ends, a checkpoint is written and the error is an *InterruptedError,
// which is ErrInterrupted. Errors about the text wrap ErrData, about checkpoints ErrCheckpoint or *MismatchError; ErrDiverged says that
// training went wrong. No error leaves a file half written.
func Run(ctx context.Context, o Options) (Report, error) {
	started := time.Now()
	r, last, err := open(o)
	if err != nil {
		return Report{}, err
	}
	defer r.x.Close()
	report, err := r.phases(ctx, last)
	report.Elapsed = time.Since(started)
	var interrupted *InterruptedError
	if err == nil || errors.As(err, &interrupted) {
		err = errors.Join(err, r.writePage(report, interrupted))
	}
	if closing := r.metrics.close(); err == nil {
		err = closing
	}
	return report, err
}

func (r *run) file(name string) string { return filepath.Join(r.o.Dir, name) }

// phases goes through the phases that are left, writes the model, and reports. last is nil for a run that starts.
func (r *run) phases(ctx context.Context, last *snapshot) (Report, error) {
	names := r.o.Phases
	if last != nil {
		last.getJSON(keyPosition, &r.at)
		if last.err != nil {
			return Report{}, last.err
		}
		at := slices.Index(names, r.at.Phase)
		if at < 0 {
			return Report{}, fmt.Errorf("%w %s: phase %q, expected one of %v", ErrCheckpoint, last.path, r.at.Phase, names)
		}
		names = names[at:]
	}
	if err := r.prepare(ctx, names); err != nil {
		return Report{}, err
	}
	for _, name := range names {
		if err := r.phase(ctx, name, last); err != nil {
			return r.report(), err
		}
		last = nil
	}
	return r.finish(ctx)
}

// phase makes the steps of one phase, from the checkpoint last if there is one; base is the model it ends with.
func (r *run) phase(ctx context.Context, name string, last *snapshot) (err error) {
	p, err := r.newPhase(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	if last != nil {
		if err := r.resume(p, last); err != nil {
			return err
		}
	} else {
		r.at.Phase, r.at.Validated = name, -1
	}
	if err := r.loop(ctx, p); err != nil {
		return err
	}
	r.endPhase(p)
	return nil
}

// phase is what the loop knows of pretraining and of the two schemes.
type phase interface {
	length() int            // steps in all
	step() (outcome, error) // one optimiser step
	save(*snapshot)         // everything that the next steps depend on
	load(*snapshot) error
	trained() []array             // views of the weights that the steps move
	learner() *sparsemeta.Learner // nil in pretraining
	frozen() bool                 // the slow weights stand still
	describe() string             // for a person
	close() error                 // ends what it has running
}

// array is a named view of weights.
type array struct {
	name string
	data []float32
}

func (r *run) newPhase(name string) (phase, error) {
	o := &r.o
	seed := o.Seed
	var joint *JointOptions
	switch name {
	case PhasePretrain:
		return newPretrain(r.x, r.base.LM, r.seen, r.base.Tokenizer.Start(), o.Pretrain, seed)
	case PhaseJoint:
		joint, seed = &o.Joint, kernel.Key(seed, useJoint) // not the stream of PhaseMeta over again
	}
	if o.Meta.Scheme == SchemeWindow {
		return newWindow(r.x, r.base, r.text, o.Meta, joint, seed)
	}
	return newOnline(r.x, r.base, r.text, o.HoldOut, o.Meta, joint, seed)
}

// endPhase takes the best weights as the phase's result.
func (r *run) endPhase(p phase) {
	if r.at.Best != nil {
		for i, a := range p.trained() {
			copy(a.data, r.best[i].data)
		}
	}
	r.base.Learner = p.learner()
	r.at = position{Done: append(r.at.Done, r.phaseReport())}
}

func (r *run) phaseReport() PhaseReport {
	return PhaseReport{Phase: r.at.Phase, Steps: r.at.Step, Tokens: r.at.Tokens, Loss: r.at.Loss, Best: r.at.Best}
}

// report is that of a run that ends here, with the phase under way as its last.
func (r *run) report() Report {
	phases := slices.Clone(r.at.Done)
	if r.at.Phase != "" {
		phases = append(phases, r.phaseReport())
	}
	return Report{Phases: phases}
}

// finish makes the model's file. The model that is measured and named in the report is the one in the file, rounded as it is there.
func (r *run) finish(ctx context.Context) (Report, error) {
	report := Report{Phases: r.at.Done}
	m, err := r.model(r.base.Learner)
	if err == nil {
		err = m.StoreAs(storeTypes[r.o.Store])
	}
	if err != nil {
		return report, fmt.Errorf("train: the model cannot be stored as %s: %w", r.o.Store, err)
	}
	last := r.at.Done[len(r.at.Done)-1]
	if report.Stored = last.Best; r.valid != nil && m.Store != weights.F32 {
		stored, err := r.valid.measure(ctx, m, nil)
		if ctx.Err() != nil {
			return report, r.interrupted(ctx, last.Phase, last.Steps)
		}
		if err != nil {
			return report, err
		}
		stored.Step = last.Best.Step
		report.Stored = &stored
	}
	if m.Card, err = json.Marshal(card{r.record, r.at.Done, r.o.Store, report.Stored, r.base.Arithmetic.Numerics()}); err != nil {
		return report, fmt.Errorf("train: the model's card: %w", err)
	}
	report.Model = m.ID()
	if r.o.Out == "" {
		return report, nil
	}
	if err := r.writeFile(r.o.Out, m.File(), weights.OptionsFor(r.o.Out)); err != nil {
		return report, fmt.Errorf("train: the model could not be written: %w%s", err, r.lastCheckpoint())
	}
	report.Out = r.o.Out
	return report, nil
}

// model is the model as trained so far, sharing its weights.
func (r *run) model(learner *sparsemeta.Learner) (*model.Model, error) {
	m, err := model.New(r.o.Name, r.base.LM, learner, r.o.Meta.Chunk, nil)
	if err != nil {
		return nil, err
	}
	m.Arithmetic = r.base.Arithmetic
	return m, nil
}

// finite tells whether a step went well.
func (o outcome) finite() bool {
	sum := o.loss + o.norm
	return !math.IsNaN(sum) && !math.IsInf(sum, 0)
}
