package main

import (
	"math/rand/v2"

	"github.com/lmserve/lmserve/experiments/tape"
)

type layer struct{ w, b *tape.Var }

func newLayer(in, out int, r *rand.Rand) layer {
	return layer{tape.Glorot(in, out, r), tape.New(1, out)}
}

func (l layer) apply(t *tape.Tape, x *tape.Var) *tape.Var { return t.Add(t.MatMul(x, l.w), l.b) }

func (l layer) params() []*tape.Var { return []*tape.Var{l.w, l.b} }

// A cell is a layer of an LSTM (Hochreiter and Schmidhuber, 1997) with forget gates.
type cell struct {
	layer
	units int
	h, c  *tape.Var
}

func newCell(in, units int, r *rand.Rand) *cell {
	c := &cell{layer: newLayer(in+units, 4*units, r), units: units}
	for i := range units {
		c.b.Value[units+i] = 1 // the forget gates are open at first
	}
	return c
}

func (c *cell) begin() { c.h, c.c = zeros(c.units), zeros(c.units) }

// step returns the output h after input x:
// c <- f c + i tanh(z), h = o tanh(c), with gates i, f and o.
func (c *cell) step(t *tape.Tape, x *tape.Var) *tape.Var {
	parts := splitter{t: t, row: c.apply(t, t.Concat(x, c.h))}
	i := t.Sigmoid(parts.next(c.units))
	f := t.Sigmoid(parts.next(c.units))
	o := t.Sigmoid(parts.next(c.units))
	z := t.Tanh(parts.next(c.units))
	c.c = t.Add(t.Mul(f, c.c), t.Mul(i, z))
	c.h = t.Mul(o, t.Tanh(c.c))
	return c.h
}

type lstm struct {
	cell *cell
	out  layer
}

func newLSTM(s sizes, r *rand.Rand) *lstm {
	return &lstm{newCell(s.inputs, s.units, r), newLayer(s.units, s.outputs, r)}
}

func (n *lstm) params() []*tape.Var { return append(n.cell.params(), n.out.params()...) }

func (n *lstm) begin() { n.cell.begin() }

func (n *lstm) step(t *tape.Tape, x *tape.Var) *tape.Var {
	return n.out.apply(t, n.cell.step(t, x))
}
