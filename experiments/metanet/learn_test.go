package metanet

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/experiments/tape"
	"github.com/lmserve/lmserve/sparsemeta"
)

func small(t *testing.T) (*Net, *tape.Var) {
	v := tape.New(1, 3)
	n, err := New([]*tape.Var{v}, Settings{K: 2, Gamma: 0.9, Beta1: 0.5, Beta2: 0.5, P: 1, Out: 1,
		MetaRate: 0.01, Init: sparsemeta.InitHe()}, 1)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Close()) })
	return n, v
}

// Adapt, Accumulate and Learn together have the same effect as two calls of Step with K = 2.
func TestLearnIsSlowStepOfAlgorithm(t *testing.T) {
	first, second := []float64{1, -2, 0.01}, []float64{0.3, 0.2, -1}
	a, av := small(t)
	solver := &tape.Adam{Rate: 0.1}
	copy(av.Grad, first)
	require.NoError(t, a.Step(solver, nil))
	copy(av.Grad, second)
	require.NoError(t, a.Step(solver, nil))

	b, bv := small(t)
	solver = &tape.Adam{Rate: 0.1}
	copy(bv.Grad, first)
	b.Adapt(1)
	require.Equal(t, make([]float64, 3), bv.Grad)
	copy(bv.Grad, second)
	b.Accumulate()
	require.NoError(t, b.Learn(solver, nil))

	require.Equal(t, av.Value, bv.Value)
	require.Equal(t, a.slow, b.slow)
	require.Equal(t, a.learner.Phi, b.learner.Phi)
	require.NotZero(t, b.slow[0])
}

func TestAccumulateAddsGradients(t *testing.T) {
	n, v := small(t)
	var sum sparsemeta.NodeGradients
	for _, g := range [][]float64{{1, 2, 3}, {-1, 0.5, 0.1}} {
		n.Reset()
		copy(v.Grad, g)
		n.Adapt(1)
		copy(v.Grad, g)
		one, _ := small(t) // a Net with equal meta-weights, which gets only this gradient
		copy(one.matrices[0].Grad, g)
		one.Adapt(1)
		copy(one.matrices[0].Grad, g)
		one.Accumulate()
		if sum == nil {
			sum = one.nodes
		} else {
			for i, d := range one.nodes[0][0] {
				sum[0][0][i] += d
			}
		}
		n.Accumulate()
	}
	require.InDeltaSlice(t, sum[0][0], n.nodes[0][0], 1e-12)
	require.Equal(t, [][]float64{{0, 2.5, 3.1}}, n.sums)
	require.NoError(t, n.Learn(&tape.Adam{Rate: 0.1}, nil))
	require.Equal(t, [][]float64{{0, 0, 0}}, n.sums)
	require.ErrorContains(t, n.Learn(&tape.Adam{Rate: 0.1}, nil), "called before Accumulate")
}
