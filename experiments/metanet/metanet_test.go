package metanet

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/experiments/tape"
	"github.com/lmserve/lmserve/sparsemeta"
)

// Every window of two steps has a new random linear map, so slow weights cannot learn the map. The
// meta-learner learns to find the map from one gradient.
func TestFastWeightsLearnFromOneGradient(t *testing.T) {
	const n, width, windows = 16, 4, 1500
	r := rand.New(rand.NewPCG(1, 1))
	w := tape.New(width, 1)
	net, err := New([]*tape.Var{w}, Settings{K: 2, P: 1, Beta2: 1, Out: 1, MetaRate: 0.003,
		Init: sparsemeta.InitSmall()}, 1)
	require.NoError(t, err)
	defer func() { require.NoError(t, net.Close()) }()
	solver := &tape.Adam{Rate: 0.001}

	var before, after float64
	for window := range windows {
		net.Reset()
		want := make([]float64, width)
		for i := range want {
			want[i] = r.NormFloat64()
		}
		for step := range 2 {
			x, y := make([]float64, n*width), make([]float64, n)
			for i := range y {
				for j := range width {
					x[i*width+j] = r.NormFloat64()
					y[i] += x[i*width+j] * want[j]
				}
			}
			var tp tape.Tape
			d := tp.Sub(tp.MatMul(tape.Const(n, width, x), w), tape.Const(n, 1, y))
			loss := tp.Affine(tp.Sum(tp.Mul(d, d)), 1./n, 0)
			if window >= windows-200 {
				if step == 0 {
					before += loss.Value[0]
				} else {
					after += loss.Value[0]
				}
			}
			tp.Backward(loss)
			require.NoError(t, net.Step(solver, nil))
			require.Equal(t, make([]float64, width), w.Grad)
		}
	}
	require.Less(t, after, 0.5*before)
}

func TestStepsAlternate(t *testing.T) {
	w := tape.Const(1, 2, []float64{1, 2})
	w.Grad = make([]float64, 2)
	net, err := New([]*tape.Var{w}, Settings{K: 3, Gamma: 0.9, Beta1: 0.5, Beta2: 0.5, P: 1, Out: 1,
		MetaRate: 0.001, Init: sparsemeta.InitSmall()}, 1)
	require.NoError(t, err)
	defer func() { require.NoError(t, net.Close()) }()
	solver := &tape.Adam{Rate: 0.1}
	for step := 1; step <= 6; step++ {
		slow := append([]float64(nil), net.slow[0]...)
		w.Grad[0], w.Grad[1] = 0.3, -0.2
		require.NoError(t, net.Step(solver, nil))
		if step%3 == 0 {
			require.NotEqual(t, slow, net.slow[0], step)
		} else {
			require.Equal(t, slow, net.slow[0], step)
		}
	}
	require.NotEqual(t, net.slow[0], w.Value)
	net.Reset()
	require.Equal(t, net.slow[0], w.Value)
}
