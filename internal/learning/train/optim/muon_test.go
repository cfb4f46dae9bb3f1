package optim

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
	"github.com/lmserve/lmserve/txl"
)

func muonConfig() txl.Config {
	return txl.Config{NLayer: 1, DModel: 12, NHead: 2, DHead: 5, DInner: 9, Vocab: 256, SegLen: 4,
		MemLen: 4, Activation: txl.SwiGLU}
}

// The singular values of a step's direction u are near 1. So the smaller of the matrices u uᵀ and
// uᵀ u is near the identity matrix.
func TestMuonMovesEveryDirectionAlike(t *testing.T) {
	x := kernel.NewExec(2)
	defer x.Close()
	rapid.Check(t, func(t *rapid.T) {
		small, large := rapid.IntRange(1, 20).Draw(t, "small"), rapid.IntRange(40, 80).Draw(t,
			"large")
		rows, cols := small, large
		if rapid.Bool().Draw(t, "tall") {
			rows, cols = large, small
		}
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		o := &Muon{x: normals(rng, rows*cols, 1e-3), y: make([]float32, rows*cols),
			a: make([]float32, small*small), b: make([]float32, small*small)}
		u := o.orthogonal(x, rows, cols)
		at := func(i, k int) float64 { // element k of row i; a tall matrix is transposed
			if rows <= cols {
				return float64(u[i*cols+k])
			}
			return float64(u[k*cols+i])
		}
		for i := range small {
			for j := range small {
				dot := 0.0
				for k := range large {
					dot += at(i, k) * at(j, k)
				}
				want := 0.0
				if i == j {
					want = 1
				}
				// singular values are about 0.7 to 1.2, so the diagonal is 0.49 to 1.44
				require.InDelta(t, want, dot, .55)
			}
		}
	})
}

func TestMuonLeavesAZeroGradientAlone(t *testing.T) {
	x := kernel.NewExec(1)
	defer x.Close()
	l := txl.NewLayout(muonConfig())
	rng := rand.New(rand.NewPCG(1, 1))
	w := normals(rng, l.Size, .1)
	before := slices.Clone(w)
	NewMuon(l, 1).Step(x, w, make([]float32, l.Size), .1)
	require.Equal(t, before, w)
}

func TestMuonTellsMatricesFromTheRest(t *testing.T) {
	x := kernel.NewExec(1)
	defer x.Close()
	config := muonConfig()
	config.UntieSoftmax = true
	l := txl.NewLayout(config)
	for _, table := range []string{"word_emb.emb_layers.0.weight", "crit.out_layers.0.weight"} {
		require.True(t, ofVocabulary(l.Tensors[l.Index(table)]))
	}
	rng := rand.New(rand.NewPCG(1, 2))
	w, g := normals(rng, l.Size, .1), normals(rng, l.Size, .1)
	byAdam := slices.Clone(w)
	before := slices.Clone(w)
	NewAdam(l.Size, Beta1, Beta2, Epsilon, 0).Step(x, byAdam, g, .01)
	NewMuon(l, 0).Step(x, w, g, .01)
	for _, tensor := range l.Tensors {
		lo, hi := tensor.Off, tensor.Off+tensor.Size
		if tensor.IsMatrix() && !ofVocabulary(tensor) {
			parts := 1
			if strings.HasSuffix(tensor.Name, "qkv_net.weight") {
				parts = 3
			}
			rows, cols := tensor.Shape[0]/parts, tensor.Shape[1]
			for i := range parts {
				sum := 0.0
				for j := lo + i*rows*cols; j < lo+(i+1)*rows*cols; j++ {
					d := float64(w[j]-before[j]) / .01
					sum += d * d
				}
				want := muonRMS * muonRMS * float64(max(rows, cols)) * float64(min(rows, cols))
				require.InEpsilon(t, want, sum, .45, tensor.Name)
			}
			continue
		}
		require.Equal(t, byAdam[lo:hi], w[lo:hi], tensor.Name)
	}
}

func TestMuonDoesNotDependOnThreads(t *testing.T) {
	run := func(threads int) []float32 {
		x := kernel.NewExec(threads)
		defer x.Close()
		c := muonConfig()
		c.DModel, c.DInner = 96, 200
		l := txl.NewLayout(c)
		rng := rand.New(rand.NewPCG(3, 2))
		w := normals(rng, l.Size, .1)
		o := NewMuon(l, 1)
		for range 3 {
			o.Step(x, w, normals(rng, l.Size, .1), .01)
		}
		return w
	}
	require.Equal(t, run(1), run(4))
}

func TestMuonRefusesWhatIsNotFinite(t *testing.T) {
	x := kernel.NewExec(1)
	defer x.Close()
	l := txl.NewLayout(muonConfig())
	w, g := make([]float32, l.Size), make([]float32, l.Size)
	g[l.Size/2] = float32(math.NaN())
	o := NewMuon(l, 1)
	require.True(t, math.IsNaN(o.Step(x, w, g, .1)))
	require.Equal(t, make([]float32, l.Size), w)
	require.Equal(t, make([]float32, l.Size), o.M)
}

func TestMuonAllocatesNothing(t *testing.T) {
	x := kernel.NewExec(2)
	defer x.Close()
	l := txl.NewLayout(muonConfig())
	w, g := make([]float32, l.Size), make([]float32, l.Size)
	g[l.Size/2] = 1
	o := NewMuon(l, 1)
	step := func() { o.Step(x, w, g, 1e-3) }
	step()
	require.Zero(t, testing.AllocsPerRun(10, step))
}
