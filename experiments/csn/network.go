package main

import (
	"math"
	"math/rand/v2"

	"github.com/lmserve/lmserve/experiments/tape"
)

const units = 32

// A network contains a weight matrix and a row of biases for each layer, alternately. The network
// applies tanh between layers.
type network []*tape.Var

func newNetwork(r *rand.Rand, sizes ...int) (n network) {
	for i := range len(sizes) - 1 {
		n = append(n, tape.Glorot(sizes[i], sizes[i+1], r), tape.New(1, sizes[i+1]))
	}
	return n
}

func (n network) matrices() (w []*tape.Var) {
	for i := 0; i < len(n); i += 2 {
		w = append(w, n[i])
	}
	return w
}

func (n network) biases() (b []*tape.Var) {
	for i := 1; i < len(n); i += 2 {
		b = append(b, n[i])
	}
	return b
}

func (n network) fixed() (f network) {
	for _, v := range n {
		f = append(f, fixed(v))
	}
	return f
}

// run returns the pre-activations a_t of every layer. With shifts beta, the result of a hidden
// layer is tanh(a_t) + tanh(beta_t), and the last pre-activations are a_T + beta_T (eq. 1 of the
// CSN paper). Parameter shifts may be nil.
func (n network) run(t *tape.Tape, x *tape.Var, shifts []*tape.Var) (pre []*tape.Var) {
	for i := 0; i < len(n); i += 2 {
		a := t.AddRow(t.MatMul(x, n[i]), n[i+1])
		x = t.Tanh(a)
		if shifts != nil {
			x = t.Add(x, t.Tanh(shifts[i/2]))
			if i == len(n)-2 {
				a = t.Add(a, shifts[i/2])
			}
		}
		pre = append(pre, a)
	}
	return pre
}

func (n network) last(t *tape.Tape, x *tape.Var) *tape.Var {
	pre := n.run(t, x, nil)
	return pre[len(pre)-1]
}

func tanhSlope(x float64) float64 { return 1 - math.Tanh(x)*math.Tanh(x) }
