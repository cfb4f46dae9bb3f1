package train

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/lmserve/lmserve/internal/kernel"
	"github.com/lmserve/lmserve/internal/model"
	"github.com/lmserve/lmserve/txl"
	"github.com/lmserve/lmserve/weights"
)

// open reads everything a run needs: text, model and, to resume, the last checkpoint.
func open(o Options) (*run, *snapshot, error) {
	r := &run{o: o.withDefaults(), writeFile: weights.WriteFile}
	if err := r.o.validate(); err != nil {
		return nil, nil, err
	}
	if err := r.loadText(); err != nil {
		return nil, nil, err
	}
	if err := r.loadModel(); err != nil {
		return nil, nil, err
	}
	r.base.Arithmetic = kernel.Arithmetic{Precision: r.o.Precision}
	if err := r.o.validate(); err != nil { // what depends on text and model, too
		return nil, nil, err
	}
	if r.foundLearner != "" {
		r.note("meta-learners of %s %s", o.Init, r.foundLearner)
	}
	r.setRecord()
	last, err := r.openFolder()
	if err != nil {
		return nil, nil, err
	}
	for _, path := range []string{o.Out, o.Report} {
		if err := canWrite(path); err != nil {
			return nil, nil, err
		}
	}
	if r.metrics, err = openMetrics(r.o.Metrics); err != nil {
		return nil, nil, err
	}
	r.x = kernel.NewExecIn(r.o.Threads, r.base.Arithmetic)
	return r, last, nil
}

// openFolder makes the folder of the checkpoints and reads the last one, if the run is to go on from it. A folder that holds a run already
// is only used to resume it.
func (r *run) openFolder() (last *snapshot, err error) {
	dir := r.o.Dir
	if dir == "" {
		return nil, nil
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, fmt.Errorf("%w folder %s: %w", ErrCheckpoint, dir, pathCause(err))
	}
	_, err = os.Stat(r.file(lastName))
	switch {
	case errors.Is(err, os.ErrNotExist):
		if r.o.Resume {
			r.note("there is no checkpoint in %s yet: the run starts from its beginning", dir)
		}
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("%w %s: %w", ErrCheckpoint, r.file(lastName), pathCause(err))
	case !r.o.Resume:
		return nil, fmt.Errorf("%w folder %s holds a run already (%s): resume it or choose another folder", ErrCheckpoint, dir, lastName)
	}
	return readSnapshot(r.file(lastName), r.record)
}

// note tells a person something that is not about the phase under way.
func (r *run) note(format string, args ...any) {
	if r.o.Progress != nil {
		fmt.Fprintf(r.o.Progress, format+"\n", args...)
	}
}

// canWrite makes sure, before hours of work, that a file can be written: that its folder exists and takes new files.
func canWrite(path string) error {
	if path == "" {
		return nil
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fmt.Errorf("train: %s is a directory, expected the name of a file to write", path)
	}
	probe, err := os.CreateTemp(filepath.Dir(path), ".lmserve-*")
	if err != nil {
		return fmt.Errorf("train: %s cannot be written: %w", path, pathCause(err))
	}
	if err := errors.Join(probe.Close(), os.Remove(probe.Name())); err != nil {
		return fmt.Errorf("train: %s cannot be written: %w", path, pathCause(err))
	}
	return nil
}

func (r *run) loadText() (err error) {
	if r.text, err = LoadCorpus(r.o.Data, 0); err != nil {
		return err
	}
	valid := (*Corpus)(nil)
	switch r.o.Valid {
	case ValidNone:
	case "":
		r.text, valid = r.text.keepBack(kernel.Key(r.o.Seed, useKeepBack))
		r.keptBack = valid != nil
	default:
		if valid, err = LoadCorpus(r.o.Valid, max(0, r.o.Validation.Bytes)); err != nil {
			return err
		}
	}
	if valid != nil {
		r.valid = &validator{valid, r.o.Validation, kernel.Key(r.o.Seed, useValidation), r.o.Threads}
	}
	r.seen, err = r.text.Without(r.o.HoldOut)
	return err
}

// loadModel makes the model to start from and completes the options that depend on it.
func (r *run) loadModel() error {
	o := &r.o
	if o.Init == "" {
		if err := r.newModel(); err != nil {
			return err
		}
		o.complete(nil, r.base.LM.Config, r.text.Bytes())
		return nil
	}
	m, err := model.Load(o.Init)
	if err != nil {
		return fmt.Errorf("train: the model to go on from: %w", err)
	}
	r.record.Init = m.Hash()
	if err := setLengths(m.LM, o.Model); err != nil {
		return err
	}
	if o.Name == "" {
		o.Name = m.Name
	}
	found := m
	if r.foundLearner, err = r.keepLearner(m); err != nil {
		return err
	}
	if r.foundLearner != learnerKept {
		m.Learner, found = nil, nil
	}
	o.complete(found, m.LM.Config, r.text.Bytes())
	r.base = m
	r.base.Name = o.Name
	return nil
}

// setLengths gives a model the lengths of a configuration, on which no weight depends; the zero configuration asks for nothing.
func setLengths(lm *txl.Model, to txl.Config) error {
	if to.NLayer == 0 {
		return nil
	}
	c := lm.Config
	c.SegLen, c.MemLen, c.ClampLen, c.SameLength = to.SegLen, to.MemLen, to.ClampLen, to.SameLength
	if have, want := showJSON(to), showJSON(c); have != want {
		return &OptionError{"Model", have, want + ", which the weights of the model to go on from have (only lengths can be others)"}
	}
	lm.Config = c
	return nil
}

// What becomes of the meta-learners of Options.Init; "": it has none.
const (
	learnerKept    = "are trained further"
	learnerDropped = "are dropped: pretraining makes a static model"
	learnerRenewed = "are made anew: other branches or banks are asked for"
)

func (r *run) keepLearner(m *model.Model) (string, error) {
	if m.Learner == nil {
		return "", nil
	}
	if r.o.Phases[0] == PhasePretrain {
		return learnerDropped, nil
	}
	ok, err := reusable(m, r.o.Meta)
	if !ok {
		return learnerRenewed, err
	}
	return learnerKept, nil
}

func (r *run) newModel() error {
	o := &r.o
	name := "model"
	if o.Model.NLayer == 0 {
		var err error
		if o.Model, err = txl.Named(DefaultConfig); err != nil {
			return err
		}
		name = DefaultConfig
	}
	if o.Name == "" {
		o.Name = name
	}
	lm, err := txl.NewModel(o.Model)
	if err != nil {
		return err
	}
	lm.Init(kernel.Key(o.Seed, useWeights))
	r.base, err = model.New(o.Name, lm, nil, 1, nil)
	return err
}

// setRecord fills in what identifies the run.
func (r *run) setRecord() {
	o := &r.o
	rec := &r.record
	rec.Phases, rec.Name, rec.Model, rec.HoldOut, rec.Seed, rec.Chunk = o.Phases, o.Name, r.base.LM.Config, o.HoldOut, o.Seed, o.Meta.Chunk
	rec.Data = r.text.record()
	for _, phase := range o.Phases {
		if phase == PhasePretrain {
			rec.Pretrain = &o.Pretrain
			continue
		}
		rec.Meta = &o.Meta
		if phase == PhaseJoint {
			rec.Joint = &o.Joint
		}
	}
	if r.valid != nil {
		text := r.valid.text.record()
		rec.Valid, rec.KeptBack, rec.Validation = &text, r.keptBack, &o.Validation
	}
}
