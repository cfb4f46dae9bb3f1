package metatrain

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
	"github.com/lmserve/lmserve/sparsemeta"
	"github.com/lmserve/lmserve/weights"
)

// conformance is the folder with the results of the float64 reference implementation.
const conformance = "../../internal/lab/conformance/testdata/"

// tolerance is the tolerance for float32, relative to the largest entry of a tensor.
const tolerance = 1e-3

type fixture struct {
	t testing.TB
	*weights.File
}

func openFixture(t testing.TB, name string) fixture {
	f, err := weights.ReadFile(conformance + name + ".safetensors")
	require.NoError(t, err)
	return fixture{t, f}
}

func (f fixture) tensor(name string) *weights.Tensor {
	x, ok := f.Tensor(name)
	require.True(f.t, ok, name)
	return x
}

func (f fixture) floats(name string) []float32 {
	v, err := f.tensor(name).Float32s()
	require.NoError(f.t, err)
	return v
}

func (f fixture) number(name string) float64 {
	v, err := strconv.ParseFloat(f.Metadata[name], 64)
	require.NoError(f.t, err, name)
	return v
}

func (f fixture) learner() *sparsemeta.Learner {
	l := &sparsemeta.Learner{Settings: sparsemeta.Settings{
		Gammas: []float32{float32(f.number("gamma"))},
		Beta1:  float32(f.number("beta1")), Beta2: float32(f.number("beta2")), P: f.number("p"),
		Out: 1,
	}}
	if f.Metadata["out_scale"] != "" {
		l.Settings.Out = float32(f.number("out_scale"))
	}
	l.Phi = [][]sparsemeta.Network{nil}
	for _, name := range strings.Split(f.Metadata["branches"], ",") {
		l.Branches = append(l.Branches, sparsemeta.Branch{Name: name, Size: f.tensor("step0.grad." +
			name).Elements()})
		var n sparsemeta.Network
		for _, p := range sparsemeta.Parts() {
			require.Equal(f.t, p.Hi-p.Lo, copy(n[p.Lo:p.Hi], f.floats("meta."+name+"."+p.Name)))
		}
		l.Phi[0] = append(l.Phi[0], n)
		if _, ok := f.Tensor("scale." + name); ok {
			l.Scale = append(l.Scale, f.floats("scale."+name)...)
		}
	}
	require.NoError(f.t, l.Validate())
	return l
}

// arena returns the branches' tensors named prefix + branch, end to end.
func (f fixture) arena(l *sparsemeta.Learner, prefix string) (arena []float32) {
	for _, b := range l.Branches {
		arena = append(arena, f.floats(prefix+b.Name)...)
	}
	return arena
}

func (f fixture) mask(l *sparsemeta.Learner, prefix string) [][]uint8 {
	var mask []uint8
	for _, b := range l.Branches {
		mask = append(mask, f.tensor(prefix+b.Name).Data...)
	}
	return [][]uint8{mask}
}

// nearTensor checks got against the tensor with this name, relative to the tensor's largest entry.
func (f fixture) nearTensor(name string, got []float32) {
	want := f.floats(name)
	require.Len(f.t, got, len(want), name)
	largest := 0.
	for _, v := range want {
		largest = max(largest, math.Abs(float64(v)))
	}
	for e, v := range got {
		require.InDelta(f.t, want[e], v, tolerance*largest, "%s[%d]", name, e)
	}
}

func (f fixture) near(s *sparsemeta.State, l *sparsemeta.Learner, prefix string, got []float32) {
	for i, b := range l.Branches {
		f.nearTensor(prefix+b.Name, s.Branch(got, i))
	}
}

func (f fixture) nearGradient(l *sparsemeta.Learner, prefix string, got [][]sparsemeta.Network) {
	for i, b := range l.Branches {
		for _, p := range sparsemeta.Parts() {
			f.nearTensor(prefix+b.Name+"."+p.Name, got[0][i][p.Lo:p.Hi])
		}
	}
}

// Preprocessing and meta-learners agree with the reference's list of scalars. The network agrees up
// to the rounding of the numbers in the file, and the table within a third of the tolerance.
func TestProbesOfTheReference(t *testing.T) {
	f := openFixture(t, "sparsemeta_small")
	l := f.learner()
	tables := l.Compile()
	pre := f.floats("probe.pre")
	probed := 0
	for i, x := range f.floats("probe.x") {
		m, s := sparsemeta.Preprocess(float64(x))
		require.InDelta(t, pre[2*i], m, 1e-7)
		require.InDelta(t, pre[2*i+1], s, 1e-7)
		for b, branch := range l.Branches {
			if _, ok := f.Tensor("probe.g." + branch.Name); !ok {
				continue
			}
			probed++
			want := f.floats("probe.g." + branch.Name)[i]
			require.InDelta(t, want, l.Phi[0][b].Eval(float64(x)), 1e-7)
			require.InDelta(t, want, tables[0][b].At(x), tolerance/3*math.Abs(float64(want)),
				"%s at %v", branch.Name, x)
		}
	}
	require.NotZero(t, probed)
}

func TestUpdatesOfTheReference(t *testing.T) {
	for name, steps := range map[string]int{"sparsemeta_small": 5, "metaonline_small": 4,
		"metatrain_small": 2} {
		t.Run(name, func(t *testing.T) {
			f := openFixture(t, name)
			l := f.learner()
			tables, s, x := l.Compile(), sparsemeta.NewState(l.Branches, 1, 0, kernel.Float32),
				kernel.NewExec(1)
			fast := make([]float32, l.Size())
			defer x.Close()
			for step := range steps {
				at := fmt.Sprintf("step%d.", step)
				s.UpdateMasked(x, tables, l.Settings, l.Scale, f.arena(l, at+"grad."), fast,
					f.mask(l, at+"mask."))
				if name != "metatrain_small" { // The file metatrain_small lacks I.
					f.near(s, l, at+"I.", s.I[0].F32)
				}
				f.near(s, l, at+"M.", fast)
			}
		})
	}
}

// Online training takes the gradient at every step, before the step writes fast weights. The
// gradient then flows through all elements written so far.
func TestOnlineMetaGradientsOfTheReference(t *testing.T) {
	f := openFixture(t, "metaonline_small")
	l := f.learner()
	trainer := newTrainer(t, l, Options{})
	tables, s, x := trainer.Tables(), sparsemeta.NewState(l.Branches, 1, 0, kernel.Float32),
		kernel.NewExec(2)
	fast := make([]float32, l.Size())
	defer x.Close()
	s.Trace()
	for step := range 4 {
		at := fmt.Sprintf("step%d.", step)
		g := f.arena(l, at+"grad.")
		dv := tables.Gradients(nil)
		s.NodeGradient(x, tables, l.Settings.Out, g, 1, dv)
		grad, err := trainer.Gradient(dv)
		require.NoError(t, err)
		f.nearGradient(l, at+"grad.meta.", grad)
		s.UpdateMasked(x, tables, l.Settings, l.Scale, g, fast, f.mask(l, at+"mask."))
		f.near(s, l, at+"M.", fast)
	}
}

// In window training, two steps write fast weights. Then training takes the gradient of the last
// step's loss.
func TestWindowMetaGradientOfTheReference(t *testing.T) {
	f := openFixture(t, "metatrain_small")
	l := f.learner()
	trainer := newTrainer(t, l, Options{})
	tables, s, x := trainer.Tables(), sparsemeta.NewState(l.Branches, 1, 0, kernel.Float32),
		kernel.NewExec(2)
	fast := make([]float32, l.Size())
	defer x.Close()
	s.Trace()
	for step := range 2 {
		at := fmt.Sprintf("step%d.", step)
		s.UpdateMasked(x, tables, l.Settings, nil, f.arena(l, at+"grad."), fast,
			f.mask(l, at+"mask."))
	}
	var g []float32
	for _, b := range l.Branches {
		g = append(g, f.floats("grad."+b.Name+".weight")...)
	}
	dv := tables.Gradients(nil)
	s.NodeGradient(x, tables, l.Settings.Out, g, 1, dv)
	grad, err := trainer.Gradient(dv)
	require.NoError(t, err)
	f.nearGradient(l, "grad.meta.", grad)
}
