package main

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/lmserve/lmserve/experiments/tape"
	"github.com/stretchr/testify/require"
)

func randomMaps(channels, images, side int, r *rand.Rand) Maps {
	m := newMaps(channels, images, side)
	for i := range m.Value {
		m.Value[i] = r.NormFloat64()
	}
	return m
}

func TestLayersMatchFiniteDifferences(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	x, w := randomMaps(2, 3, 4, r), he(3, taps*2, r)
	norm := newNorm(2)
	norm.Gain.Value[1], norm.Bias.Value[0] = 1.5, .3
	for name, f := range map[string]func(t *tape.Tape) *tape.Var{
		"conv":    func(t *tape.Tape) *tape.Var { return conv(t, x, w).Var },
		"norm":    func(t *tape.Tape) *tape.Var { return norm.apply(t, x, false).Var },
		"pool":    func(t *tape.Tape) *tape.Var { return pool(t, x).Var },
		"average": func(t *tape.Tape) *tape.Var { return average(t, x) },
	} {
		t.Run(name, func(t *testing.T) {
			compare(t, []*tape.Var{x.Var, w, norm.Gain, norm.Bias}, func() (*tape.Tape, *tape.Var) {
				var tape tape.Tape
				y := f(&tape)
				return &tape, tape.Sum(tape.Mul(y, tape.Tanh(y)))
			})
		})
	}
}

// compare checks the gradients of a scalar function against finite differences.
func compare(t *testing.T, params []*tape.Var, loss func() (*tape.Tape, *tape.Var)) {
	tape.ClearGradients(params)
	tp, y := loss()
	tp.Backward(y)
	for p, v := range params {
		for i := range v.Value {
			want := tape.Slope(v, i, loss)
			require.InDelta(t, want, v.Grad[i], 2e-6*(1+math.Abs(want)), "%d %d", p, i)
		}
	}
}

func TestConvolutionEqualsItsSum(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	const in, out, images, side = 2, 3, 40, 8 // conv splits these images into two groups
	x, w := randomMaps(in, images, side, r), he(out, taps*in, r)
	var tape tape.Tape
	y := conv(&tape, x, w)
	for o := range out {
		for n := range images {
			for p := range side * side {
				sum := 0.
				for c := range in {
					for tap := range taps {
						i, j := p/side+tap/3-1, p%side+tap%3-1
						if i >= 0 && j >= 0 && i < side && j < side {
							at := (c*images+n)*side*side + i*side + j
							sum += w.Value[(o*in+c)*taps+tap] * x.Value[at]
						}
					}
				}
				require.InDelta(t, sum, y.Value[(o*images+n)*side*side+p], 1e-12)
			}
		}
	}
}

func TestNetworkMatchesFiniteDifferences(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	n := newNetwork(32, labelCount, r)
	x := randomMaps(3, 4, 4, r)
	loss := func() (*tape.Tape, *tape.Var) {
		var tape tape.Tape
		return &tape, tape.CrossEntropy(n.forward(&tape, x, false), []int{0, 4, 2, 1}, nil)
	}
	params := []*tape.Var{n.convs[1], n.convs[3], n.shortcuts[2], n.norms[5].Gain, n.head, n.bias}
	for _, p := range params {
		for range 6 {
			i := r.IntN(len(p.Value))
			tape.ClearGradients(n.params())
			tp, y := loss()
			tp.Backward(y)
			got := p.Grad[i]
			want := tape.Slope(p, i, loss)
			require.InDelta(t, want, got, 1e-4*(1+math.Abs(want)))
		}
	}
}

func TestNormResetForgetsStream(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	n, x := newNorm(2), randomMaps(2, 3, 4, r)
	var tp tape.Tape
	own := n.apply(&tp, x, false)
	require.InDeltaSlice(t, own.Value, n.apply(&tp, x, true).Value, 1e-12)
	n.apply(&tp, Maps{tape.Const(2, 48, make([]float64, 96)), 3, 4}, false)
	require.Greater(t, math.Abs(n.apply(&tp, x, true).Value[0]), math.Abs(own.Value[0]))
	n.Reset()
	require.InDeltaSlice(t, own.Value, n.apply(&tp, x, false).Value, 1e-12)
	require.InDelta(t, 1, n.weight, 0)
}
