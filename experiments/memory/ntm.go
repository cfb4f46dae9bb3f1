package main

import (
	"math/rand/v2"

	"github.com/lmserve/lmserve/experiments/tape"
)

// ntm is a neural Turing machine (Graves, Wayne and Danihelka, 2014) with an LSTM controller, a
// write head and a read head. In each step it writes and then reads.
type ntm struct {
	size    sizes
	cell    *cell
	heads   layer
	out     layer
	memory  *tape.Var // M in the NTM paper, with a row for each slot
	written *tape.Var
	readAt  *tape.Var
	read    *tape.Var // read vector, r in the NTM paper
}

// addressing returns the number of controller outputs that determine a head's weighting: width for
// the key, and 6 for strength, gate, three shifts and sharpening.
func (n *ntm) addressing() int { return n.size.width + 6 }

func newNTM(s sizes, r *rand.Rand) *ntm {
	n := &ntm{size: s, cell: newCell(s.inputs+s.width, s.units, r)}
	n.heads = newLayer(s.units, 2*n.addressing()+2*s.width, r)
	n.out = newLayer(s.units+s.width, s.outputs, r)
	return n
}

func (n *ntm) params() []*tape.Var {
	return append(append(n.cell.params(), n.heads.params()...), n.out.params()...)
}

func (n *ntm) begin() {
	n.cell.begin()
	n.memory = constant(n.size.slots, n.size.width, 1e-6)
	n.written, n.readAt, n.read = first(n.size.slots), first(n.size.slots), zeros(n.size.width)
}

func constant(rows, cols int, value float64) *tape.Var {
	all := make([]float64, rows*cols)
	for i := range all {
		all[i] = value
	}
	return tape.Const(rows, cols, all)
}

func (n *ntm) step(t *tape.Tape, x *tape.Var) *tape.Var {
	h := n.cell.step(t, t.Concat(x, n.read))
	parts := &splitter{t: t, row: n.heads.apply(t, h)}
	n.written = n.address(parts, n.written)
	erase, add := t.Sigmoid(parts.next(n.size.width)), parts.next(n.size.width)
	n.memory = write(t, n.memory, n.written, erase, add) // eqs. 3 and 4 of the NTM paper
	n.readAt = n.address(parts, n.readAt)
	n.read = t.MatMul(n.readAt, n.memory) // eq. 2 of the NTM paper
	return n.out.apply(t, t.Concat(h, n.read))
}

func (n *ntm) address(parts *splitter, before *tape.Var) *tape.Var {
	t := parts.t
	k := parts.next(n.size.width)
	beta := t.Softplus(parts.next(1))
	g := t.Sigmoid(parts.next(1))
	s := t.Softmax(parts.next(3))
	gamma := t.Affine(t.Softplus(parts.next(1)), 1, 1)
	w := content(t, k, beta, n.memory)          // eqs. 5 and 6 of the NTM paper
	w = mix(t, g, w, before)                    // eq. 7 of the NTM paper
	w = shift(t, w, s)                          // eq. 8 of the NTM paper
	return t.Softmax(t.MatMul(gamma, t.Log(w))) // eq. 9 of the NTM paper: w^gamma, normalized
}
