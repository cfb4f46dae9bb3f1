package train

import (
	"context"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/learning/train/corpus"
	"github.com/lmserve/lmserve/weights"
)

func TestFilesWithoutPermissionAreNamed(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may read and write everything")
	}
	o := TinyPretraining(t)
	secret := filepath.Join(o.Data, "domain0", "0.txt")
	require.NoError(t, os.Chmod(secret, 0))
	_, err := Run(context.Background(), o)
	require.ErrorIs(t, err, corpus.ErrData)
	require.ErrorIs(t, err, fs.ErrPermission)
	require.ErrorContains(t, err, secret)
	require.NoError(t, os.Chmod(secret, 0o666))

	locked := t.TempDir()
	require.NoError(t, os.Chmod(locked, 0o555))
	o.Out = filepath.Join(locked, "m")
	_, err = Run(context.Background(), o)
	require.ErrorIs(t, err, fs.ErrPermission)
	require.ErrorContains(t, err, o.Out+" cannot be written")
}

func TestFailedCheckpointLeavesTheOldOne(t *testing.T) {
	o := TinyPretraining(t)
	o.Dir, o.Valid, o.Validation = filepath.Join(t.TempDir(), "run"), WriteText(t, 100),
		ValidationOptions{Every: 4, Bytes: 50}
	// A folder at the path of the best checkpoint makes the write of that checkpoint fail. The last
	// checkpoint is written before.
	require.NoError(t, os.MkdirAll(filepath.Join(o.Dir, bestName(PhasePretrain)), 0o777))
	_, err := Run(context.Background(), o)
	require.ErrorIs(t, err, ErrCheckpoint)
	require.ErrorContains(t, err, bestName(PhasePretrain))
	require.ErrorContains(t, err, "the previous checkpoint is intact")
	require.NoError(t, os.Remove(filepath.Join(o.Dir, bestName(PhasePretrain))))
	o.Resume = true
	_, err = Run(context.Background(), o)
	require.NoError(t, err)
}

func TestFullDiskLosesNothing(t *testing.T) {
	whole := TinyPretraining(t)
	whole.Out = filepath.Join(t.TempDir(), "m")
	_, err := Run(context.Background(), whole)
	require.NoError(t, err)
	want, err := os.ReadFile(whole.Out)
	require.NoError(t, err)

	// room is the number of files that fit on the disk; the run writes three checkpoints and the
	// model
	for room := range 4 {
		o := whole
		o.Dir, o.Out = filepath.Join(t.TempDir(), "run"), filepath.Join(t.TempDir(), "m")
		r, _, err := open(t.Context(), o)
		require.NoError(t, err)
		written := 0
		r.writeFile = func(path string, f *weights.File, w weights.WriteOptions) error {
			if written++; written > room {
				return &fs.PathError{Op: "write", Path: path, Err: syscall.ENOSPC}
			}
			return weights.WriteFile(path, f, w)
		}
		_, err = r.phases(context.Background(), nil)
		r.x.Close()
		require.ErrorIs(t, err, syscall.ENOSPC)
		if room < 3 {
			require.ErrorIs(t, err, ErrCheckpoint)
			require.ErrorContains(t, err, r.file(lastName)+" could not be written (the "+
				"previous checkpoint is intact)")
		} else {
			require.ErrorContains(t, err, "the model could not be written: ")
			require.ErrorContains(t, err, r.file(lastName)+" has step 12")
			require.NoFileExists(t, o.Out)
		}
		o.Resume = true
		_, err = Run(context.Background(), o)
		require.NoError(t, err)
		got, err := os.ReadFile(o.Out)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

type diverging struct{ stepper }

func (diverging) step() (Outcome, error) { return Outcome{Loss: 5, Norm: math.Inf(1)}, nil }

func TestOutcomeDiverges(t *testing.T) {
	for _, o := range []Outcome{
		{Loss: 90, Norm: 1}, {Loss: 1e9, Norm: 1}, {Loss: math.NaN(), Norm: 1},
		{Loss: 5, Norm: math.NaN()}, {Loss: 5, Norm: math.Inf(1)}, {Loss: math.Inf(1), Norm: 1},
	} {
		require.True(t, o.diverged(), o)
	}
	for _, o := range []Outcome{{}, {Loss: 5.5, Norm: 1e30}, {Loss: 88, Norm: 2}} {
		require.False(t, o.diverged(), o)
	}
}

func TestDivergenceIsAnError(t *testing.T) {
	r, _, err := open(t.Context(), TinyPretraining(t))
	require.NoError(t, err)
	defer r.x.Close()
	p, err := r.newPhase(PhasePretrain)
	require.NoError(t, err)
	r.at.Phase = PhasePretrain
	err = r.loop(context.Background(), diverging{p})
	require.ErrorIs(t, err, ErrDiverged)
	require.ErrorContains(t, err, "phase pretrain, step 0: loss 5, gradient norm +Inf: try a "+
		"lower learning rate")
	require.Zero(t, r.at.Step)
}

// poisoned is pretraining in which a weight becomes NaN before a given step.
type poisoned struct {
	*pretraining
	at int
}

func (p poisoned) step() (Outcome, error) {
	if p.steps == p.at {
		p.lm.W[0] = float32(math.NaN())
	}
	return p.pretraining.step()
}

func TestDivergenceLeavesTheLastCheckpoint(t *testing.T) {
	o := TinyPretraining(t) // TinyPretraining writes a checkpoint every 5 steps
	o.Dir = filepath.Join(t.TempDir(), "run")
	r, _, err := open(t.Context(), o)
	require.NoError(t, err)
	defer r.x.Close()
	p, err := r.newPhase(PhasePretrain)
	require.NoError(t, err)
	r.at.Phase = PhasePretrain
	err = r.loop(context.Background(), poisoned{p.(*pretraining), 7})
	require.ErrorIs(t, err, ErrDiverged)
	require.ErrorContains(t, err, "phase pretrain, step 7: loss NaN")
	require.ErrorContains(t, err, filepath.Join(o.Dir, lastName)+" has step 5")
	last, err := readCheckpoint(r.file(lastName), r.recipe)
	require.NoError(t, err)
	for _, a := range append(p.trained(), p.(*pretraining).slow.moments()...) {
		last.get(a.name, a.data)
		require.NoError(t, last.err)
		for _, v := range a.data {
			require.Zero(t, v-v, "%s has %v", a.name, v)
		}
	}
}

// spoiled is pretraining in which a step makes a weight NaN.
type spoiled struct{ *pretraining }

func (p spoiled) step() (Outcome, error) {
	o, err := p.pretraining.step()
	p.lm.W[0] = float32(math.NaN())
	return o, err
}

func TestDivergenceInAValidationIsAnError(t *testing.T) {
	o := TinyPretraining(t)
	o.Dir = filepath.Join(t.TempDir(), "run")
	o.Valid, o.Validation = WriteText(t, 100), ValidationOptions{Every: 1, Bytes: 50}
	r, _, err := open(t.Context(), o)
	require.NoError(t, err)
	defer r.x.Close()
	p, err := r.newPhase(PhasePretrain)
	require.NoError(t, err)
	r.at.Phase = PhasePretrain
	err = r.loop(context.Background(), spoiled{p.(*pretraining)})
	require.ErrorIs(t, err, ErrDiverged)
	require.ErrorContains(t, err, "phase pretrain, step 1: the validation loss is NaN")
	require.NoFileExists(t, r.file(lastName))
}

// A later run, or a resumed run, would read checkpoints and models in the folder of the text.
func TestResultsAreNotWrittenIntoTheText(t *testing.T) {
	o := TinyPretraining(t)
	valid := WriteText(t, 100)
	for _, path := range []string{o.Data, filepath.Join(o.Data, "run"), filepath.Join(valid, "a",
		"run")} {
		for field, change := range map[string]func(*Options){
			"Dir": func(o *Options) { o.Dir = path }, "Out": func(o *Options) { o.Out = path },
		} {
			o := o
			o.Valid = valid
			change(&o)
			_, err := Run(context.Background(), o)
			var option *OptionError
			require.ErrorAs(t, err, &option)
			require.Equal(t, field, option.Field)
			require.ErrorContains(t, err, path+", expected a path outside of ")
		}
	}
	linked := o
	linked.Data = filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(o.Data, linked.Data))
	linked.Dir = filepath.Join(o.Data, "a", "run")
	_, err := Run(context.Background(), linked)
	require.ErrorContains(t, err, linked.Dir+", expected a path outside of "+linked.Data)
	o.Dir, o.Out = filepath.Join(o.Data, ".run"), o.Data+".safetensors"
	for range 2 {
		_, err := Run(context.Background(), o)
		require.NoError(t, err)
		o.Resume = true
	}
}

func TestValidationTextIsNotTrainedOn(t *testing.T) {
	o := TinyPretraining(t)
	linked := t.TempDir()
	document := filepath.Join(o.Data, "domain1", "0.txt")
	require.NoError(t, os.Symlink(document, filepath.Join(linked, "a")))
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(filepath.Join(o.Data, "domain1"), link))
	for valid, name := range map[string]string{
		o.Data: "domain0/0.txt", filepath.Join(o.Data, "domain1"): "0.txt", linked: "a",
		link: "0.txt",
	} {
		o := o
		o.Valid = valid
		_, err := Run(context.Background(), o)
		var option *OptionError
		require.ErrorAs(t, err, &option)
		require.Equal(t, "Valid", option.Field)
		require.ErrorContains(t, err, valid+", expected a directory without files of "+o.Data)
		require.ErrorContains(t, err, "both have "+name)
	}

	// Pretraining leaves out the domain, but the phase meta reads it.
	o.Valid, o.HoldOut = link, []string{"domain1"}
	_, _, err := open(t.Context(), o)
	require.NoError(t, err)
	o.Phases = nil
	_, _, err = open(t.Context(), o)
	require.ErrorContains(t, err, "option Valid is "+link)
}

func TestNameIsCheckedBeforeTheTraining(t *testing.T) {
	o := TinyMeta(t, SchemeOnline)
	o.Phases, o.Init, o.Valid = []string{PhaseMeta}, Pretrained(t), ValidNone
	o.Name = strings.Repeat("x", 129)
	var told recorder
	o.Observer = &told
	_, err := Run(context.Background(), o)
	require.ErrorContains(t, err, "expected at most 128 printable characters")
	for _, e := range told.events {
		_, stepped := e.(Stepped)
		require.False(t, stepped)
	}
}

func TestReportWithoutAModelFile(t *testing.T) {
	r := Report{Unit: PerByte, Model: "tiny-1", Stored: &Measurement{Static: 2}}
	require.Equal(t, "model tiny-1, valid bits/byte static 2.0000, 0s in this run\n", r.String())
	r.Out = "m"
	require.Equal(t, "model tiny-1, valid bits/byte static 2.0000, written to m, 0s in this "+
		"run\n", r.String())
	r.Stored = nil
	require.Equal(t, "model tiny-1 written to m, 0s in this run\n", r.String())
}
