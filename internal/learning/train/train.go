package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lmserve/lmserve/weights"
)

// Run trains as the options say and returns a report. If ctx ends, Run writes a checkpoint and
// returns an *InterruptedError, which wraps ErrInterrupted. If ctx ends while Run reads the text,
// Run writes nothing and returns an error that wraps ErrInterrupted. Errors about the text wrap
// corpus.ErrData. Errors about checkpoints wrap ErrCheckpoint or are a *MismatchError. ErrDiverged
// says that training diverged. Files are written completely or not at all.
func Run(ctx context.Context, o Options) (Report, error) {
	started := time.Now()
	r, last, err := open(ctx, o)
	if err != nil {
		if ended := ctx.Err(); ended != nil && errors.Is(err, ended) {
			err = fmt.Errorf("%w before training: %w", ErrInterrupted, context.Cause(ctx))
		}
		return Report{}, err
	}
	defer r.x.Close()
	report, err := r.phases(ctx, last)
	report.Elapsed = time.Since(started)
	if told := r.tell(Finished{report, err}); told != nil {
		err = errors.Join(err, told)
	}
	return report, err
}

// phases runs the remaining phases, writes the model, and returns the report. The parameter `last`
// is nil for a new run.
func (r *runner) phases(ctx context.Context, last *checkpoint) (Report, error) {
	names := r.o.Phases
	if last != nil {
		last.getJSON(keyPosition, &r.at)
		if last.err != nil {
			return Report{}, last.err
		}
		at := slices.Index(names, r.at.Phase)
		if at < 0 {
			return Report{}, fmt.Errorf("%w %s: found phase %q, expected one of %v", ErrCheckpoint,
				last.path, r.at.Phase, names)
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

// phase makes the steps of one phase, from the checkpoint last if there is one. Afterwards r.base
// is the resulting model.
func (r *runner) phase(ctx context.Context, name string, last *checkpoint) (err error) {
	p, err := r.newPhase(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	if last != nil {
		if err := r.restore(p, last); err != nil {
			return err
		}
	} else {
		r.at.Phase, r.at.Validated = name, -1
	}
	if err := r.loop(ctx, p); err != nil {
		return err
	}
	r.takeBest(p)
	if l := p.learner(); l != nil {
		r.base.Learner = l
	}
	r.at = position{Done: append(r.at.Done, r.at.report())}
	return nil
}

// finish writes the model's file. The returned measurement and model id are those of the file, with
// rounded weights.
func (r *runner) finish(ctx context.Context) (Report, error) {
	report := Report{Unit: r.unit(), Phases: r.at.Done}
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
	kept := m.Learner != nil && !r.o.trainsLearner()
	if m.Card, err = json.Marshal(card{r.recipe, r.at.Done, r.o.Store, report.Stored,
		kept && withCompanion(r.base), r.base.Arithmetic.Numerics()}); err != nil {
		return report, fmt.Errorf("train: encoding the model's card: %w", err)
	}
	report.Model = m.ID()
	if r.o.Out == "" {
		return report, nil
	}
	if err := r.writeFile(r.o.Out, m.File(), weights.OptionsFor(r.o.Out)); err != nil {
		return report, fmt.Errorf("train: the model could not be written: %w%s", err,
			r.lastCheckpoint())
	}
	report.Out = r.o.Out
	return report, nil
}

var (
	// ErrInterrupted is wrapped by the error of Run when the context has ended. If the options name
	// a folder of checkpoints, the run was saved there and can be resumed.
	ErrInterrupted = errors.New("train: interrupted")
	// ErrDiverged means that the loss or a gradient is not finite, or that the loss is too large
	// for trained weights.
	ErrDiverged = errors.New("train: diverged")
)

// InterruptedError says where a run stopped because the context of Run ended.
type InterruptedError struct {
	Phase string
	Step  int
	// path of the checkpoint to resume from; "" if the run has no folder of checkpoints
	Checkpoint string
	Cause      error // the context's error
}

func (e *InterruptedError) Error() string {
	if e.Checkpoint == "" {
		return fmt.Sprintf("train: interrupted in phase %s after step %d; nothing was saved (no "+
			"checkpoint directory was given)",
			e.Phase, e.Step)
	}
	return fmt.Sprintf("train: interrupted in phase %s after step %d; resume from %s", e.Phase,
		e.Step, e.Checkpoint)
}

// Unwrap returns ErrInterrupted and the error of the context.
func (e *InterruptedError) Unwrap() []error { return []error{ErrInterrupted, e.Cause} }
