package train

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
	"github.com/lmserve/lmserve/internal/learning/train/optim"
	"github.com/lmserve/lmserve/weights"
)

// MismatchError says that a checkpoint belongs to a run with other settings.
type MismatchError struct {
	Path  string
	Field string // the JSON path of the first field that differs, e.g. "model.d_model"
	Have  string // the value in the checkpoint
	Want  string // the value in this run
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("train: checkpoint %s is from a different run: %s is %s in the checkpoint "+
		"and %s in this run",
		e.Path, e.Field, e.Have, e.Want)
}

func readCheckpoint(path string, want Recipe) (*checkpoint, error) {
	f, err := weights.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	if v := f.Metadata[checkpointKind]; v != checkpointValue {
		return nil, fmt.Errorf("%w %s: metadata %s is %q, expected %q: is the file a model?",
			ErrCheckpoint, path, checkpointKind, v, checkpointValue)
	}
	stored := f.Metadata[keyHash]
	delete(f.Metadata, keyHash)
	if hash := f.Hash(); stored != hash {
		return nil, fmt.Errorf("%w %s: the file is damaged: metadata %s is %q, expected %q",
			ErrCheckpoint, path, keyHash, stored, hash)
	}
	c := &checkpoint{path: path, file: f}
	var at position
	if c.getJSON(keyPosition, &at); c.err != nil {
		return nil, c.err
	}
	if err := sameRun(path, f.Metadata[keyRun], shortened(want, f.Metadata[keyRun],
		at)); err != nil {
		return nil, err
	}
	return c, nil
}

// shortened lets a run resume with another number of pretraining steps. During pretraining,
// shortened puts the number of the checkpoint's recipe into the run's recipe, unless one of the two
// numbers has already affected the steps. In all other cases shortened returns the recipe
// unchanged. A number affects a cosine schedule from the beginning, and other schedules from the
// start of their decay.
func shortened(want Recipe, have string, at position) Recipe {
	var other Recipe
	if at.Phase != PhasePretrain || json.Unmarshal([]byte(have), &other) != nil ||
		want.Pretrain == nil || other.Pretrain == nil {
		return want
	}
	o := *want.Pretrain
	a := optim.Schedule{Kind: o.Schedule, Warmup: max(0, o.Warmup), Steps: o.Steps}
	b := a
	b.Steps = other.Pretrain.Steps
	if o.Schedule != optim.ScheduleCosine && at.Step <= min(a.DecayStart(), b.DecayStart()) {
		o.Steps = b.Steps
		want.Pretrain = &o
	}
	return want
}

// sameRun compares the recipe in a checkpoint with the recipe of the run. It returns a
// *MismatchError for the first field that differs. Checkpoints of older programs lack the field
// pretrain_companion, and fit every value.
func sameRun(path, have string, want Recipe) error {
	found, err := decodeFields([]byte(have))
	if err != nil {
		return fmt.Errorf("%w %s: metadata %s: %w", ErrCheckpoint, path, keyRun, err)
	}
	if found["pretrain_companion"] == nil {
		want.Companion = nil
	}
	expected, err := want.Fields()
	if err != nil {
		return fmt.Errorf("%w %s: %w", ErrCheckpoint, path, err)
	}
	if field, h, w := firstDifference("", found, expected); field != "" {
		return &MismatchError{Path: path, Field: field, Have: h, Want: w}
	}
	return nil
}

// samePrecision returns a *MismatchError if a checkpoint was written in another precision.
func samePrecision(c *checkpoint, a kernel.Arithmetic) error {
	have := kernel.PrecisionOf(c.file.Metadata[keyNumerics])
	want := kernel.PrecisionOf(a.Numerics())
	if have != want {
		return &MismatchError{c.path, "precision", string(have), string(want)}
	}
	return nil
}

// firstDifference returns the path of the first field in which two decoded JSON values differ, and
// the field's two values. Keys are compared in sorted order. The path is "" if the values are
// equal.
func firstDifference(at string, a, b any) (field, have, want string) {
	ma, aok := a.(map[string]any)
	mb, bok := b.(map[string]any)
	if aok && bok {
		keys := slices.AppendSeq(slices.Collect(maps.Keys(ma)), maps.Keys(mb))
		slices.Sort(keys)
		for _, k := range slices.Compact(keys) {
			path := k
			if at != "" {
				path = at + "." + k
			}
			if field, have, want = firstDifference(path, ma[k], mb[k]); field != "" {
				return field, have, want
			}
		}
		return "", "", ""
	}
	if h, w := showJSON(a), showJSON(b); h != w {
		return at, h, w
	}
	return "", "", ""
}

func showJSON(v any) string {
	if v == nil {
		return "not set"
	}
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}
