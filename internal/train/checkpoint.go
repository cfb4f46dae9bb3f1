package train

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/lmserve/lmserve/internal/strictjson"
	"github.com/lmserve/lmserve/weights"
)

// A checkpoint is a file of weights whose metadata holds what identifies the run and where it stands, as JSON, and whose tensors hold
// every array of the phase under way.
const (
	checkpointKind  = "lmserve.checkpoint"
	checkpointValue = "1" // version of the layout
	keyRun          = "lmserve.run"
	keyPosition     = "lmserve.position"
	keyPhase        = "lmserve.phase"    // the phase's own counters
	keyNumerics     = "lmserve.numerics" // arithmetic of the machine that wrote it
)

const lastName = "last.safetensors"

// bestName is the checkpoint of the step of a phase that validated best.
func bestName(phase string) string { return phase + "-best.safetensors" }

// snapshot is a checkpoint in memory.
type snapshot struct {
	path string // where it was read from
	file *weights.File
	err  error // the first that get or state met
}

func newSnapshot() *snapshot {
	return &snapshot{file: &weights.File{Metadata: map[string]string{checkpointKind: checkpointValue}}}
}

// put stores a copy of an array.
func (s *snapshot) put(name string, data []float32) {
	s.file.Tensors = append(s.file.Tensors, weights.F32Tensor(name, []int{len(data)}, data))
}

// put64 is put for float64.
func (s *snapshot) put64(name string, data []float64) {
	raw := make([]byte, 0, 8*len(data))
	for _, v := range data {
		raw = binary.LittleEndian.AppendUint64(raw, math.Float64bits(v))
	}
	s.file.Tensors = append(s.file.Tensors, weights.Tensor{Name: name, DType: weights.F64, Shape: []int{len(data)}, Data: raw})
}

// putJSON stores a plain value.
func (s *snapshot) putJSON(key string, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // plain structs of finite numbers and strings
	}
	s.file.Metadata[key] = string(text)
}

// get fills dst with a stored array, which must have its size. An error is kept in s.err.
func (s *snapshot) get(name string, dst []float32) {
	t := s.tensor(name, weights.F32, len(dst))
	if t == nil {
		return
	}
	values, err := t.Float32s()
	if err != nil {
		s.err = fmt.Errorf("%w %s: %w", ErrCheckpoint, s.path, err)
		return
	}
	copy(dst, values)
}

// get64 is get for float64.
func (s *snapshot) get64(name string, dst []float64) {
	t := s.tensor(name, weights.F64, len(dst))
	if t == nil {
		return
	}
	for i := range dst {
		dst[i] = math.Float64frombits(binary.LittleEndian.Uint64(t.Data[8*i:]))
	}
}

// tensor finds an array of the given type and size; if there is none, it says so in s.err and returns nil.
func (s *snapshot) tensor(name string, d weights.DType, size int) *weights.Tensor {
	if s.err != nil {
		return nil
	}
	t, ok := s.file.Tensor(name)
	if !ok {
		s.fail("tensor %q is missing, expected %s with %d elements", name, d, size)
		return nil
	}
	if t.DType != d || t.Elements() != size {
		s.fail("tensor %q is %s%v, expected %s with %d elements", name, t.DType, t.Shape, d, size)
		return nil
	}
	return t
}

// getJSON reads a plain value, strictly. An error is kept in s.err.
func (s *snapshot) getJSON(key string, into any) {
	if s.err != nil {
		return
	}
	if err := strictjson.Unmarshal([]byte(s.file.Metadata[key]), into); err != nil {
		s.fail("metadata %s: %v", key, err)
	}
}

func (s *snapshot) fail(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf("%w %s: %s", ErrCheckpoint, s.path, fmt.Sprintf(format, args...))
	}
}

// writeSnapshot stores a snapshot in a file, all or nothing: after an error the file is what it was before.
func (r *run) writeSnapshot(s *snapshot, path string) error {
	if err := r.writeFile(path, s.file, weights.WriteOptions{}); err != nil {
		return fmt.Errorf("%w %s could not be written (the one before it is intact): %w", ErrCheckpoint, path, err)
	}
	return nil
}

// readSnapshot reads a checkpoint and makes sure that it belongs to the run.
func readSnapshot(path string, run runRecord) (*snapshot, error) {
	f, err := weights.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	if v := f.Metadata[checkpointKind]; v != checkpointValue {
		return nil, fmt.Errorf("%w %s: metadata %s is %q, expected %q: is it a model?", ErrCheckpoint, path, checkpointKind, v, checkpointValue)
	}
	s := &snapshot{path: path, file: f}
	var at position
	if s.getJSON(keyPosition, &at); s.err != nil {
		return nil, s.err
	}
	if err := sameRun(path, f.Metadata[keyRun], run.shortened(f.Metadata[keyRun], at)); err != nil {
		return nil, err
	}
	return s, nil
}

// shortened is the record with as many steps of pretraining as another has, if at this position it does not matter: before either's decay,
// under a schedule whose rates do not depend on it until then. So a long run may be prolonged.
func (run runRecord) shortened(have string, at position) runRecord {
	var other runRecord
	if at.Phase != PhasePretrain || json.Unmarshal([]byte(have), &other) != nil || run.Pretrain == nil || other.Pretrain == nil {
		return run
	}
	o := *run.Pretrain
	a := Schedule{Kind: o.Schedule, Warmup: max(0, o.Warmup), Steps: o.Steps}
	b := a
	b.Steps = other.Pretrain.Steps
	if o.Schedule != ScheduleCosine && at.Step <= min(a.decayStart(), b.decayStart()) {
		o.Steps = b.Steps
		run.Pretrain = &o
	}
	return run
}

// sameRun compares a checkpoint's record of its run with this run's and names the first field that differs.
func sameRun(path, have string, run runRecord) error {
	text, err := json.Marshal(run)
	if err != nil {
		return fmt.Errorf("%w %s: %w", ErrCheckpoint, path, err)
	}
	a, err := decodeAny([]byte(have))
	if err != nil {
		return fmt.Errorf("%w %s: metadata %s: %w", ErrCheckpoint, path, keyRun, err)
	}
	b, err := decodeAny(text)
	if err != nil {
		return fmt.Errorf("%w %s: %w", ErrCheckpoint, path, err)
	}
	if field, h, w := firstDifference("", a, b); field != "" {
		return &MismatchError{Path: path, Field: field, Have: h, Want: w}
	}
	return nil
}

// decodeAny keeps numbers as they are written: a seed does not fit a float64.
func decodeAny(text []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

// firstDifference walks two decoded JSON values in the order of their keys.
func firstDifference(at string, a, b any) (field, have, want string) {
	ma, aok := a.(map[string]any)
	mb, bok := b.(map[string]any)
	if aok && bok {
		keys := append(sortedKeys(ma), sortedKeys(mb)...)
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

func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }

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
