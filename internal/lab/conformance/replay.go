package conformance

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
	"github.com/lmserve/lmserve/txl"
	"github.com/lmserve/lmserve/weights"
)

// Tolerances of float32 results against float64 references. The absolute tolerance is for values of
// order 1. For gradients, gradient averages I and fast weights M the tolerance is relative to the
// tensor's largest entry.
const (
	absoluteTolerance = 1e-4
	relativeTolerance = 1e-3
)

// Limits of a file's chunks: rows of text and memory, and bytes of activations.
const (
	maxRows         = 1 << 16
	maxSegmentBytes = 1 << 30
)

// replay holds what all kinds of files need. The first error stops the replay.
type replay struct {
	file   *weights.File
	exec   *kernel.Exec
	model  *txl.Model
	checks []Check
	err    error
}

func (r *replay) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

func (r *replay) meta(key string, into any) {
	text, ok := r.file.Metadata[key]
	if !ok {
		r.fail("metadata %s is missing", key)
		return
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		r.fail("metadata %s is %q: %w", key, text, err)
	}
}

// int reads a number from 1 to 65536. The upper bound limits the memory that a replay allocates for
// a malicious file.
func (r *replay) int(key string) int {
	var n int
	r.meta(key, &n)
	if r.err == nil && (n < 1 || n > 1<<16) {
		r.fail("metadata %s is %d, expected 1 to %d", key, n, 1<<16)
	}
	return n
}

func (r *replay) float(key string) (v float64) {
	r.meta(key, &v)
	return v
}

// constant checks a value that this implementation cannot change. The file may omit the value.
func (r *replay) constant(key string, want float64) {
	if _, ok := r.file.Metadata[key]; !ok {
		return
	}
	if v := r.float(key); r.err == nil && v != want {
		r.fail("metadata %s is %v, expected %v, as in this implementation", key, v, want)
	}
}

func (r *replay) floats(name string, size int) []float32 {
	return elements(r, name, size, (*weights.Tensor).Float32s)
}

func (r *replay) tokens(name string, size int) []int32 {
	v := elements(r, name, size, (*weights.Tensor).Int32s)
	for i, id := range v {
		if id < 0 || int(id) >= r.model.Config.Vocab {
			r.fail("tensor %q, element %d is token %d, expected 0 to %d", name, i, id,
				r.model.Config.Vocab-1)
		}
	}
	if r.err != nil {
		return make([]int32, size)
	}
	return v
}

// elements returns the elements of a tensor of the file. After an error it returns zeros.
func elements[T any](
	r *replay, name string, size int, read func(*weights.Tensor) ([]T, error),
) []T {
	t, ok := r.file.Tensor(name)
	if !ok {
		r.fail("tensor %q is missing", name)
		return make([]T, size)
	}
	v, err := read(t)
	switch {
	case err != nil:
		r.fail("tensor %q: %w", name, err)
	case len(v) != size:
		r.fail("tensor %q has %d elements (shape %v), expected %d", name, len(v), t.Shape, size)
	}
	if r.err != nil {
		return make([]T, size)
	}
	return v
}

// near compares numbers with a tensor of the file, with an absolute tolerance.
func (r *replay) near(name string, got []float32) { r.compare(name, got, absoluteTolerance, 0) }

// close compares numbers with a tensor of the file. The tolerance is relative to the tensor's
// largest entry.
func (r *replay) close(name string, got []float32) { r.compare(name, got, 0, relativeTolerance) }

func (r *replay) compare(name string, got []float32, absolute, relative float64) {
	want := r.floats(name, len(got))
	if r.err != nil {
		return
	}
	c := Check{Tensor: name}
	largest := 0.0
	for i, w := range want {
		largest = max(largest, math.Abs(float64(w)))
		d := math.Abs(float64(got[i]) - float64(w))
		if d > c.Error || math.IsNaN(d) {
			c.Error = d
		}
	}
	c.Tolerance = absolute + relative*largest
	r.checks = append(r.checks, c)
}

func (r *replay) loadModel() {
	c := txl.Config{NLayer: r.int("n_layer"), DModel: r.int("d_model"), NHead: r.int("n_head"),
		DHead:  r.int("d_head"),
		DInner: r.int("d_inner"), Vocab: r.int("vocab"), SegLen: 1,
		Activation: r.file.Metadata["activation"]}
	r.meta("mem_len", &c.MemLen)
	r.meta("clamp_len", &c.ClampLen)
	c.ClampLen = max(0, c.ClampLen) // the reference implementation writes -1 for no clamping
	r.meta("pre_lnorm", &c.PreLNorm)
	r.meta("same_length", &c.SameLength)
	r.constant("layer_norm_eps", txl.LayerNormEps)
	r.vocabulary(&c)
	if r.err != nil {
		return
	}
	if err := c.Validate(); err != nil {
		r.fail("metadata: %w", err)
		return
	}
	if r.holds(txl.NewLayout(c)); r.err != nil {
		return
	}
	m, err := txl.NewModel(c)
	if err != nil {
		r.fail("metadata: %w", err)
		return
	}
	r.model = m
	for i, t := range m.Layout.Tensors {
		copy(m.Tensor(i), r.floats(t.Name, t.Size))
	}
}

// holds checks that the file has all tensors of a model. It is called before the model's memory is
// allocated.
func (r *replay) holds(l *txl.Layout) {
	for _, t := range l.Tensors {
		stored, ok := r.file.Tensor(t.Name)
		if !ok {
			r.fail("tensor %q is missing", t.Name)
		} else if !slices.Equal(stored.Shape, t.Shape) {
			r.fail("tensor %q has shape %v, expected %v, as in the "+
				"metadata", t.Name, stored.Shape, t.Shape)
		}
	}
}

// roomFor checks that chunks of `length` rows in `batch` streams do not need too much memory.
func (r *replay) roomFor(batch, length int) {
	if r.err != nil {
		return
	}
	c := r.model.Config
	if rows := batch * (length + c.MemLen); rows > maxRows {
		r.fail(
			"metadata: %d streams of %d rows after %d of memory are %d rows, expected at most %d",
			batch, length, c.MemLen, rows, maxRows)
	} else if n := txl.SegmentBytes(c, batch, length); n > maxSegmentBytes {
		r.fail("metadata: %d streams of %d rows take %d MiB, expected at most %d", batch, length,
			n>>20,
			maxSegmentBytes>>20)
	}
}

// vocabulary reads a file's settings of the adaptive input and softmax, which are all optional.
// With div_val 1 the reference implementation has one table of embeddings for all clusters. It then
// has projections only if d_embed differs from d_model. If the file has tables or projections for
// each cluster, the model gets them, too.
func (r *replay) vocabulary(c *txl.Config) {
	for key, into := range map[string]any{
		"d_embed": &c.DEmbed, "cutoffs": &c.Cutoffs, "div_val": &c.DivVal, "tie_projs": &c.TieProjs,
		"untie_softmax": &c.UntieSoftmax,
	} {
		if _, ok := r.file.Metadata[key]; ok {
			r.meta(key, into)
		}
	}
	width := cmp.Or(c.DEmbed, c.DModel)
	c.ClusterTables = c.DivVal <= 1 && (r.has("word_emb.emb_layers.1.weight") ||
		r.has("word_emb.emb_projs.1") || width == c.DModel && r.has("word_emb.emb_projs.0"))
}

// adopt replaces a compared result by the file's, so that each step starts from the reference's
// state. In one step, the loop gradient -> fast weights -> gradient multiplies a difference by up
// to ten. The reason is that the meta-learner has slopes of several hundred near zero. Without
// adopt, an error of one unit in the last place exceeds the tolerance within five steps.
func (r *replay) adopt(name string, state []float32) { copy(state, r.floats(name, len(state))) }

func (r *replay) has(name string) bool {
	_, ok := r.file.Tensor(name)
	return ok
}
