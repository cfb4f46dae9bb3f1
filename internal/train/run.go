package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lmserve/lmserve/internal/kernel"
	"github.com/lmserve/lmserve/internal/model"
	"github.com/lmserve/lmserve/sparsemeta"
	"github.com/lmserve/lmserve/txl"
	"github.com/lmserve/lmserve/weights"
)

// outZstd is the compression of a model file whose name ends in .zst.
const outZstd = 19

// run is a run under way.
type run struct {
	o       Options
	x       *kernel.Exec
	base    *model.Model // slow weights and tokenizer; its LM is trained in place
	text    *Corpus
	seen    *Corpus // text without the domains that are held out
	valid   *validator
	record  runRecord
	metrics metricsFile
	at      position
	best    []array // the trained arrays at position.Best

	saved     int // step of the phase that the last checkpoint has
	bestSaved int // step of the phase that the best checkpoint has; -1: none that this run wrote
}

// Run trains as the options say and returns what it did. If ctx ends, a checkpoint is written and the error is an *InterruptedError,
// which is ErrInterrupted. Errors about the text wrap ErrData, about checkpoints ErrCheckpoint or *MismatchError; ErrDiverged says that
// training went wrong. No error leaves a file half written.
func Run(ctx context.Context, o Options) (Report, error) {
	started := time.Now()
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return Report{}, err
	}
	r, last, err := open(o)
	if err != nil {
		return Report{}, err
	}
	defer r.x.Close()
	report, err := r.phases(ctx, last)
	if closing := r.metrics.close(); err == nil {
		err = closing
	}
	report.Elapsed = time.Since(started)
	return report, err
}

// open reads everything a run needs: text, model and, to resume, the last checkpoint.
func open(o Options) (*run, *snapshot, error) {
	r := &run{o: o}
	if err := r.loadText(); err != nil {
		return nil, nil, err
	}
	if err := r.loadModel(); err != nil {
		return nil, nil, err
	}
	r.setRecord()
	var last *snapshot
	if o.Dir != "" {
		if err := checkFolder(o.Dir, o.Resume); err != nil {
			return nil, nil, err
		}
	}
	if o.Resume {
		var err error
		if last, err = readSnapshot(r.file(lastName), r.record); err != nil {
			return nil, nil, err
		}
	}
	var err error
	if r.metrics, err = openMetrics(o.Metrics); err != nil {
		return nil, nil, err
	}
	r.x = kernel.NewExec(o.Threads)
	return r, last, nil
}

func (r *run) file(name string) string { return filepath.Join(r.o.Dir, name) }

func (r *run) loadText() (err error) {
	if r.text, err = LoadCorpus(r.o.Data, 0); err != nil {
		return err
	}
	if r.seen, err = r.text.Without(r.o.HoldOut); err != nil {
		return err
	}
	r.valid, err = newValidator(r.o)
	return err
}

// loadModel makes the model to start from and completes the options that depend on it.
func (r *run) loadModel() error {
	o := &r.o
	if o.From != "" {
		from, err := model.Load(o.From)
		if err != nil {
			return err
		}
		r.base = from
		if o.Name == "" {
			o.Name = from.Name
		}
		r.record.From = from.Hash()
	} else if err := r.newModel(); err != nil {
		return err
	}
	c := r.base.LM.Config
	orInt(&o.Pretrain.Segment, c.SegLen)
	r.base.Name = o.Name
	return nil
}

func (r *run) newModel() error {
	o := &r.o
	config, name := o.Model, "model"
	if config.NLayer == 0 {
		var err error
		if config, err = txl.Named(o.Config); err != nil {
			return err
		}
		name = o.Config
	}
	if o.Name == "" {
		o.Name = name
	}
	lm, err := txl.NewModel(config)
	if err != nil {
		return err
	}
	lm.Init(kernel.Key(o.Seed, useWeights))
	r.base, err = model.New(o.Name, lm, nil, o.Meta.Chunk, nil)
	return err
}

// setRecord fills in what identifies the run.
func (r *run) setRecord() {
	o := &r.o
	rec := &r.record
	rec.Phase, rec.Name, rec.Model, rec.HoldOut, rec.Seed, rec.Chunk = o.Phase, o.Name, r.base.LM.Config, o.HoldOut, o.Seed, o.Meta.Chunk
	rec.Data = r.text.record()
	if o.Phase != PhaseMeta {
		rec.Pretrain = &o.Pretrain
	}
	if o.Phase != PhasePretrain {
		rec.Meta = &o.Meta
	}
	if r.valid != nil {
		text := r.valid.text.record()
		rec.Valid, rec.Validation = &text, &o.Validation
	}
}

// phases goes through the phases that are left, writes the model, and reports. last is nil for a run that starts.
func (r *run) phases(ctx context.Context, last *snapshot) (Report, error) {
	names := []string{PhasePretrain, PhaseMeta}
	if r.o.Phase != PhaseBoth {
		names = []string{r.o.Phase}
	}
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
	var learner *sparsemeta.Learner
	for _, name := range names {
		var err error
		if learner, err = r.phase(ctx, name, last); err != nil {
			return r.report(), err
		}
		last = nil
	}
	return r.finish(learner)
}

// phase makes the steps of one phase, from the checkpoint last if there is one, and returns the meta-learners it ends with.
func (r *run) phase(ctx context.Context, name string, last *snapshot) (l *sparsemeta.Learner, err error) {
	p, err := r.newPhase(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	if last != nil {
		if err := r.resume(p, last); err != nil {
			return nil, err
		}
	} else {
		r.at.Phase, r.at.Validated = name, -1
	}
	if err := r.loop(ctx, p); err != nil {
		return nil, err
	}
	r.endPhase(p)
	return p.learner(), nil
}

// phase is what the loop knows of pretraining and of the schemes of the meta-phase.
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
	first := r.base.Tokenizer.Start()
	switch {
	case name == PhasePretrain:
		return newPretrain(r.x, r.base.LM, r.seen, first, r.o.Pretrain, r.o.Seed)
	case r.o.Meta.Scheme == SchemeWindow:
		return newWindow(r.x, r.base, r.text, r.o.Meta, r.o.Seed)
	default:
		return newOnline(r.x, r.base, r.text, r.o.HoldOut, r.o.Meta, r.o.Seed)
	}
}

// endPhase takes the best weights as the phase's result.
func (r *run) endPhase(p phase) {
	if r.at.Best != nil {
		for i, a := range p.trained() {
			copy(a.data, r.best[i].data)
		}
	}
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

// finish makes the model's file.
func (r *run) finish(learner *sparsemeta.Learner) (Report, error) {
	report := Report{Phases: r.at.Done}
	m, err := r.model(learner, makeCard(r.record, r.at.Done))
	if err != nil {
		return report, err
	}
	report.Model = m.ID()
	if r.o.Out == "" {
		return report, nil
	}
	options := weights.WriteOptions{}
	if strings.HasSuffix(r.o.Out, ".zst") {
		options.Zstd = outZstd
	}
	if err := weights.WriteFile(r.o.Out, m.File(), options); err != nil {
		return report, fmt.Errorf("train: the model could not be written: %w", err)
	}
	report.Out = r.o.Out
	return report, nil
}

// model is the model as trained so far, sharing its weights.
func (r *run) model(learner *sparsemeta.Learner, card json.RawMessage) (*model.Model, error) {
	return model.New(r.o.Name, r.base.LM, learner, r.o.Meta.Chunk, card)
}

// finite tells whether a step went well.
func (o outcome) finite() bool {
	sum := o.loss + o.norm
	return !math.IsNaN(sum) && !math.IsInf(sum, 0)
}
