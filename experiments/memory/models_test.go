package main

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/experiments/tape"
)

func requireDerivatives(t *testing.T, params []*tape.Var, loss func(t *tape.Tape) *tape.Var) {
	t.Helper()
	tape.ClearGradients(params)
	var forth tape.Tape
	forth.Backward(loss(&forth))
	for p, v := range params {
		for i, x := range v.Value {
			const h = 1e-5
			at := func(x float64) float64 {
				var t tape.Tape
				v.Value[i] = x
				return loss(&t).Value[0]
			}
			want := (at(x+h) - at(x-h)) / (2 * h)
			v.Value[i] = x
			require.InDelta(t, want, v.Grad[i], 1e-6*(1+math.Abs(want)),
				"parameter %d, element %d", p, i)
		}
	}
}

func random(rows, cols int, r *rand.Rand) *tape.Var {
	v := tape.New(rows, cols)
	for i := range v.Value {
		v.Value[i] = 0.1 + 0.8*r.Float64()
	}
	return v
}

func TestOperationsMatchFiniteDifferences(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	key, memory, strength := random(1, 3, r), random(5, 3, r), random(1, 1, r)
	w, v, s, links := random(1, 5, r), random(1, 5, r), random(1, 3, r), random(5, 5, r)
	for name, c := range map[string]struct {
		params []*tape.Var
		f      func(t *tape.Tape) *tape.Var
	}{
		"cosine": {[]*tape.Var{key, memory},
			func(t *tape.Tape) *tape.Var { return cosine(t, key, memory) }},
		"content": {[]*tape.Var{key, memory, strength},
			func(t *tape.Tape) *tape.Var { return content(t, key, strength, memory) }},
		"shift": {[]*tape.Var{w, s}, func(t *tape.Tape) *tape.Var { return shift(t, w, s) }},
		"allocation": {[]*tape.Var{w},
			func(t *tape.Tape) *tape.Var { return allocation(t, w) }},
		"link": {[]*tape.Var{links, w, v},
			func(t *tape.Tape) *tape.Var { return link(t, links, w, v) }},
		"write": {[]*tape.Var{memory, w, key, s},
			func(t *tape.Tape) *tape.Var { return write(t, memory, w, key, s) }},
		"mix": {[]*tape.Var{strength, w, v},
			func(t *tape.Tape) *tape.Var { return mix(t, strength, w, v) }},
	} {
		t.Run(name, func(t *testing.T) {
			requireDerivatives(t, c.params, func(t *tape.Tape) *tape.Var {
				y := c.f(t)
				return t.Sum(t.Mul(y, t.Tanh(y))) // every element has a different derivative
			})
		})
	}
}

func TestOperationsMatchDefinitions(t *testing.T) {
	var tp tape.Tape
	w := tape.Const(1, 4, []float64{0, 1, 0, 0})
	forward := tape.Const(1, 3, []float64{0, 0, 1})
	require.Equal(t, []float64{0, 0, 1, 0}, shift(&tp, w, forward).Value)

	u := tape.Const(1, 3, []float64{.5, .2, 1})
	require.InDeltaSlice(t, []float64{.1, .8, 0}, allocation(&tp, u).Value, 1e-12)

	// Slot 0 is written first, and then slot 2.
	l, p := constant(3, 3, 0), zeros(3)
	l = link(&tp, l, first(3), p)
	l = link(&tp, l, tape.Const(1, 3, []float64{0, 0, 1}), first(3))
	require.Equal(t, []float64{0, 0, 0, 0, 0, 0, 1, 0, 0}, l.Value)
}

func TestModelsMatchFiniteDifferences(t *testing.T) {
	size := sizes{inputs: bits + channels, outputs: bits, units: 3, slots: 4, width: 3}
	for name, n := range map[string]network{
		"LSTM": newLSTM(size, rand.New(rand.NewPCG(1, 1))),
		"NTM":  newNTM(size, rand.New(rand.NewPCG(1, 1))),
		"DNC":  newDNC(size, rand.New(rand.NewPCG(1, 1))),
		"MANN": newMANN(size, rand.New(rand.NewPCG(1, 1))),
	} {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(2, 2))
			for _, p := range n.params() {
				for i := range p.Value {
					p.Value[i] += 0.3 * r.NormFloat64() // avoids tiny derivatives
				}
			}
			s := drawCopy(r, 3, 1)
			requireDerivatives(t, n.params(), func(t *tape.Tape) *tape.Var {
				loss, _ := recurrent{network: n}.run(t, s)
				return loss
			})
		})
	}
}

func BenchmarkLearn(b *testing.B) {
	for _, m := range methods(1) {
		b.Run(m.name, func(b *testing.B) {
			k := tasks(1)[0]
			l, err := m.make(k, 1e-3, 1)
			require.NoError(b, err)
			defer l.close()
			r := rand.New(rand.NewPCG(1, 1))
			for b.Loop() {
				_, err := l.learn(k.sample(r))
				require.NoError(b, err)
			}
		})
	}
}
