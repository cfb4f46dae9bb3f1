package train

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/lmserve/lmserve/weights"
)

func (r *runner) bestUnsaved() bool {
	return r.at.Best != nil && r.at.Best.Step == r.at.Step && r.bestSaved != r.at.Step
}

// save writes the state of the run as the last checkpoint. If the state is the best of the phase,
// save then writes it as the best checkpoint, too. A run that is killed between the two writes
// finds the best weights in the last checkpoint.
func (r *runner) save(p stepper) error {
	if r.o.Dir == "" {
		r.saved, r.bestSaved = r.at.Step, r.at.Step
		return nil
	}
	c := newCheckpoint()
	c.putJSON(keyRun, r.recipe)
	c.putJSON(keyPosition, r.at)
	c.file.Metadata[keyNumerics] = r.base.Arithmetic.Numerics()
	p.save(c)
	c.file.Metadata[keyHash] = c.file.Hash()
	if err := r.writeCheckpoint(c, r.file(lastName)); err != nil {
		return err
	}
	r.saved = r.at.Step
	if !r.bestUnsaved() {
		return nil
	}
	if err := r.writeCheckpoint(c, r.file(bestName(r.at.Phase))); err != nil {
		return err
	}
	r.bestSaved = r.at.Step
	return nil
}

// writeCheckpoint stores a checkpoint in a file. After an error the file is unchanged.
func (r *runner) writeCheckpoint(c *checkpoint, path string) error {
	if err := r.writeFile(path, c.file, weights.WriteOptions{}); err != nil {
		return fmt.Errorf("%w %s could not be written (the previous checkpoint is intact): %w",
			ErrCheckpoint, path, err)
	}
	return nil
}

func (r *runner) saveInterrupted(ctx context.Context, p stepper) error {
	e := r.interrupted(ctx, r.at.Phase, r.at.Step)
	if err := r.save(p); err != nil {
		return fmt.Errorf("train: interrupted in phase %s after step %d; the step could not be "+
			"saved: %w", e.Phase, e.Step, err)
	}
	return e
}

func (r *runner) restore(p stepper, last *checkpoint) error {
	if r.at.Step < 0 || r.at.Step > p.length() {
		return fmt.Errorf("%w %s: found step %d, expected 0 to %d", ErrCheckpoint, last.path,
			r.at.Step, p.length())
	}
	if err := p.load(last); err != nil {
		return err
	}
	if have := last.file.Metadata[keyNumerics]; have != r.base.Arithmetic.Numerics() {
		err := r.note("the checkpoint was written under the arithmetic %q, this machine's is %q: "+
			"results will differ by rounding",
			have, r.base.Arithmetic.Numerics())
		if err != nil {
			return err
		}
	}
	if r.at.Best == nil {
		return nil
	}
	best, err := r.bestCheckpoint(last)
	if err != nil {
		return err
	}
	r.keepBest(p)
	best.getAll(r.best)
	return best.err
}

// bestCheckpoint returns the checkpoint with the best weights: the last checkpoint, or the best
// checkpoint of the phase.
func (r *runner) bestCheckpoint(last *checkpoint) (*checkpoint, error) {
	if r.at.Best.Step == r.at.Step {
		return last, nil
	}
	best, err := readCheckpoint(r.file(bestName(r.at.Phase)), r.recipe)
	if err != nil {
		return nil, err
	}
	var at position
	best.getJSON(keyPosition, &at)
	if best.err == nil && (at.Phase != r.at.Phase || at.Step != r.at.Best.Step) {
		best.fail("the checkpoint is from phase %s, step %d, expected phase %s, step %d (the "+
			"best so far)",
			at.Phase, at.Step, r.at.Phase, r.at.Best.Step)
	}
	return best, best.err
}

// CanWrite checks that a file can be written: its folder exists and accepts new files. Callers
// check this before hours of work. An empty path means no file, and no error.
func CanWrite(path string) error {
	if path == "" {
		return nil
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		kind := "device or a pipe"
		if info.IsDir() {
			kind = "directory"
		}
		return fmt.Errorf("train: %s is a %s, expected the name of a file to write", path, kind)
	}
	probe, err := os.CreateTemp(filepath.Dir(path), ".lmserve-*")
	if err != nil {
		return fmt.Errorf("train: %s cannot be written: %w", path, cause(err))
	}
	if err := errors.Join(probe.Close(), os.Remove(probe.Name())); err != nil {
		return fmt.Errorf("train: %s cannot be written: %w", path, cause(err))
	}
	return nil
}

// cause removes the operation and the path from a file-system error, because callers name the path.
func cause(err error) error { return cmp.Or(errors.Unwrap(err), err) }
