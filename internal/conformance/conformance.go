// Package conformance replays files of reference numbers through the real
// code and tells how far each tensor is off. The files are safetensors whose
// metadata key "kind" says what they hold: txl, sparsemeta, metatrain or
// metaonline (docs/conformance.md describes them).
package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/lmserve/lmserve/internal/kernel"
	"github.com/lmserve/lmserve/sparsemeta"
	"github.com/lmserve/lmserve/txl"
	"github.com/lmserve/lmserve/weights"
)

// ErrUnsupported is returned for kinds that are known but not supported yet.
var ErrUnsupported = errors.New("not supported yet")

// Tolerances for float32 against numbers computed in float64: absolute for
// values of order 1, relative to the largest entry of the tensor for
// gradients, I and M.
const (
	absoluteTolerance = 1e-4
	relativeTolerance = 1e-3
)

// Check is one tensor compared.
type Check struct {
	Tensor    string
	Error     float64 // largest absolute difference
	Tolerance float64 // what it may be
}

// OK tells whether the tensor is within tolerance. NaN is not.
func (c Check) OK() bool { return c.Error <= c.Tolerance }

// Report is the outcome of one file.
type Report struct {
	Kind   string
	Checks []Check
}

// OK tells whether every tensor is within tolerance.
func (r Report) OK() bool {
	return !slices.ContainsFunc(r.Checks, func(c Check) bool { return !c.OK() })
}

// Run replays a file. An error means that the file could not be replayed:
// malformed, incomplete, or of an unsupported kind.
func Run(f *weights.File, x *kernel.Exec) (Report, error) {
	r := &replay{file: f, exec: x}
	kind := f.Metadata["kind"]
	var run func()
	switch kind {
	case "txl":
		run = r.txl
	case "sparsemeta", "metaonline":
		run = r.online
	case "metatrain":
		run = r.window
	case "adasoftmax":
		return Report{Kind: kind}, fmt.Errorf("kind %s: %w", kind, ErrUnsupported)
	default:
		return Report{Kind: kind}, fmt.Errorf("metadata kind is %q, expected txl, sparsemeta, metatrain, metaonline or adasoftmax", kind)
	}
	r.loadModel()
	if r.err == nil {
		run()
	}
	return Report{Kind: kind, Checks: r.checks}, r.err
}

// replay holds what all kinds share. The first error stops everything.
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

// meta decodes a metadata value, numbers, lists and booleans in JSON notation.
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

// int reads a positive number that bounds allocations.
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

// constant requires a value that this implementation has built in.
func (r *replay) constant(key string, want float64) {
	if _, ok := r.file.Metadata[key]; !ok {
		return
	}
	if v := r.float(key); r.err == nil && v != want {
		r.fail("metadata %s is %v, this implementation has %v", key, v, want)
	}
}

func (r *replay) floats(name string, size int) []float32 {
	t, ok := r.file.Tensor(name)
	if !ok {
		r.fail("tensor %q is missing", name)
		return make([]float32, size)
	}
	v, err := t.Float32s()
	if err != nil {
		r.fail("tensor %q: %w", name, err)
	} else if len(v) != size {
		r.fail("tensor %q has %d elements (shape %v), expected %d", name, len(v), t.Shape, size)
	}
	if r.err != nil {
		return make([]float32, size)
	}
	return v
}

func (r *replay) tokens(name string, size int) []int32 {
	t, ok := r.file.Tensor(name)
	if !ok {
		r.fail("tensor %q is missing", name)
		return make([]int32, size)
	}
	v, err := t.Int32s()
	switch {
	case err != nil:
		r.fail("tensor %q: %w", name, err)
	case len(v) != size:
		r.fail("tensor %q has %d elements (shape %v), expected %d", name, len(v), t.Shape, size)
	}
	for i, id := range v {
		if id < 0 || int(id) >= r.model.Config.Vocab {
			r.fail("tensor %q, element %d is token %d, expected 0 to %d", name, i, id, r.model.Config.Vocab-1)
		}
	}
	if r.err != nil {
		return make([]int32, size)
	}
	return v
}

// near compares against a tensor of the file, absolutely.
func (r *replay) near(name string, got []float32) { r.compare(name, got, absoluteTolerance, 0) }

// close compares relative to the largest entry of the file's tensor.
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

// loadModel builds the model from the metadata and the slow weights.
func (r *replay) loadModel() {
	c := txl.Config{NLayer: r.int("n_layer"), DModel: r.int("d_model"), NHead: r.int("n_head"), DHead: r.int("d_head"),
		DInner: r.int("d_inner"), Vocab: r.int("vocab"), SegLen: 1, Activation: r.file.Metadata["activation"]}
	r.meta("mem_len", &c.MemLen)
	r.meta("clamp_len", &c.ClampLen)
	r.meta("pre_lnorm", &c.PreLNorm)
	r.meta("same_length", &c.SameLength)
	r.constant("layer_norm_eps", txl.LayerNormEps)
	if _, ok := r.file.Metadata["d_embed"]; ok {
		if embed := r.int("d_embed"); r.err == nil && embed != c.DModel {
			r.fail("metadata d_embed is %d, d_model %d: embedding projections are %w", embed, c.DModel, ErrUnsupported)
		}
	}
	if r.err != nil {
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

// memories compares the file's memories 0..L, and goes on from them; the last
// one, which no layer reads, is kept in top by the caller's segments.
func (r *replay) memories(prefix string, mem *txl.Memory, top *topMemory) {
	for l, rows := range append(slices.Clone(mem.Layers), top.rows) {
		name := fmt.Sprintf("%s.mem.%d", prefix, l)
		r.near(name, rows[:mem.Len*top.width])
		r.adopt(name, rows[:mem.Len*top.width])
	}
}

// topMemory is the memory of the last layer's output.
type topMemory struct {
	rows  []float32
	width int // of a row: B*D
}

func (r *replay) newTop(batch int) *topMemory {
	return &topMemory{width: batch * r.model.Config.DModel}
}

func (t *topMemory) remember(s *txl.Segment, mem *txl.Memory) {
	t.rows = append(t.rows, s.Hidden()...)
	t.rows = t.rows[len(t.rows)-mem.Len*t.width:]
}

// txl replays segments, then the gradient of the last one.
func (r *replay) txl() {
	segments, length, batch := r.int("segments"), r.int("segment_len"), r.int("batch")
	if r.err != nil {
		return
	}
	seg, mem, top := txl.NewSegment(r.model.Config, batch, length), txl.NewMemory(r.model.Config, batch), r.newTop(batch)
	nll := make([]float32, length*batch)
	for i := range segments {
		prefix := fmt.Sprintf("seg%d", i)
		input, target := r.tokens(prefix+".input", length*batch), r.tokens(prefix+".target", length*batch)
		seg.Begin(r.exec, r.model, nil, mem)
		seg.Extend(r.exec, input)
		seg.NLL(0, target, nll)
		r.near(prefix+".nll", nll)
		if i == segments-1 {
			r.slowGradients(seg, target)
		}
		seg.Remember(mem)
		top.remember(seg, mem)
		r.memories(prefix, mem, top)
	}
}

func (r *replay) slowGradients(seg *txl.Segment, target []int32) txl.Grads {
	grads := r.model.Layout.Slices(make([]float32, r.model.Layout.Size))
	seg.Backward(r.exec, target, grads)
	for i, t := range r.model.Layout.Tensors {
		r.close("grad."+t.Name, grads[i])
	}
	return grads
}

// adaptation is a learner read from a file, with the arenas that join it to
// the model.
type adaptation struct {
	names   []string // of the branches, as in the file
	learner *sparsemeta.Learner
	tables  sparsemeta.Tables
	state   *sparsemeta.State
	sum     []float32 // the fast weights
	grads   []float32
	fast    txl.Fast // of sum
	wanted  txl.Grads
}

func (r *replay) adaptation() *adaptation {
	r.constant("preprocess_p", 7)
	r.constant("leaky_slope", 0.01)
	out := 1.0
	if _, ok := r.file.Metadata["out_scale"]; ok {
		out = r.float("out_scale")
	}
	a := &adaptation{names: strings.Split(r.file.Metadata["branches"], ","), learner: &sparsemeta.Learner{}}
	l := a.learner
	l.Settings = sparsemeta.Settings{Gammas: []float32{float32(r.float("gamma"))}, Beta1: float32(r.float("beta1")),
		Beta2: float32(r.float("beta2")), P: r.float("p"), Out: float32(out)}
	networks := make([]sparsemeta.Network, len(a.names))
	for k, name := range a.names {
		i := r.model.Layout.Index(name + ".weight")
		if i < 0 {
			r.fail("metadata branches: %q is no weight of the model", name)
			return a
		}
		l.Branches = append(l.Branches, sparsemeta.Branch{Name: name, Size: r.model.Layout.Tensors[i].Size})
		for _, part := range sparsemeta.Parts() {
			copy(networks[k][part.Lo:part.Hi], r.floats("meta."+name+"."+part.Name, part.Hi-part.Lo))
		}
	}
	if r.err != nil {
		return a
	}
	l.Phi = [][]sparsemeta.Network{networks}
	a.tables = l.Compile()
	a.state = sparsemeta.NewState(l.Branches, 1, 0, kernel.Float32)
	a.sum, a.grads = make([]float32, l.Size()), make([]float32, l.Size())
	a.fast, a.wanted = make(txl.Fast, len(r.model.Layout.Tensors)), make(txl.Grads, len(r.model.Layout.Tensors))
	a.eachBranch(func(name string, lo, hi int) {
		i := r.model.Layout.Index(name + ".weight")
		a.fast[i], a.wanted[i] = a.sum[lo:hi], a.grads[lo:hi]
	})
	return a
}

func (a *adaptation) eachBranch(do func(name string, lo, hi int)) {
	off := 0
	for _, b := range a.learner.Branches {
		do(b.Name, off, off+b.Size)
		off += b.Size
	}
}
