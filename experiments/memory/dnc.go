package main

import (
	"math/rand/v2"

	"github.com/lmserve/lmserve/experiments/tape"
)

// dnc is a differentiable neural computer (Graves et al., 2016, Methods) with an LSTM controller
// and one read head.
type dnc struct {
	size       sizes
	cell       *cell
	interfaces layer
	out        layer
	memory     *tape.Var // M in the DNC paper, with a row for each slot
	usage      *tape.Var // u in the DNC paper
	precedence *tape.Var // p in the DNC paper: degree to which each slot was written last
	links      *tape.Var // L in the DNC paper: degree to which slot i was written after slot j
	written    *tape.Var // write weighting, w^w in the DNC paper
	readAt     *tape.Var // read weighting, w^r in the DNC paper
	read       *tape.Var // read vector, r in the DNC paper
}

func newDNC(s sizes, r *rand.Rand) *dnc {
	n := &dnc{size: s, cell: newCell(s.inputs+s.width, s.units, r)}
	n.interfaces = newLayer(s.units, 4*s.width+8, r)
	n.out = newLayer(s.units+s.width, s.outputs, r)
	return n
}

func (n *dnc) params() []*tape.Var {
	return append(append(n.cell.params(), n.interfaces.params()...), n.out.params()...)
}

func (n *dnc) begin() {
	n.cell.begin()
	slots := n.size.slots
	n.memory = constant(slots, n.size.width, 0)
	n.links = constant(slots, slots, 0)
	n.usage, n.precedence = zeros(slots), zeros(slots)
	n.written, n.readAt, n.read = zeros(slots), zeros(slots), zeros(n.size.width)
}

func (n *dnc) step(t *tape.Tape, x *tape.Var) *tape.Var {
	h := n.cell.step(t, t.Concat(x, n.read))
	parts := splitter{t: t, row: n.interfaces.apply(t, h)}
	readKey, readStrength := parts.next(n.size.width), oneplus(t, parts.next(1))
	writeKey, writeStrength := parts.next(n.size.width), oneplus(t, parts.next(1))
	erase, add := t.Sigmoid(parts.next(n.size.width)), parts.next(n.size.width)
	free := t.Sigmoid(parts.next(1))
	allocate := t.Sigmoid(parts.next(1))
	gate := t.Sigmoid(parts.next(1))
	modes := t.Softmax(parts.next(3))

	n.use(t, free)
	lookup := content(t, writeKey, writeStrength, n.memory)
	n.written = t.MatMul(gate, mix(t, allocate, allocation(t, n.usage), lookup))
	n.memory = write(t, n.memory, n.written, erase, add)
	n.order(t)

	forward := t.MatMulT(n.readAt, n.links)
	backward := t.MatMul(n.readAt, n.links)
	lookup = content(t, readKey, readStrength, n.memory)
	n.readAt = t.Add(t.Add(t.MatMul(t.Columns(modes, 0, 1), backward),
		t.MatMul(t.Columns(modes, 1, 2), lookup)), t.MatMul(t.Columns(modes, 2, 3), forward))
	n.read = t.MatMul(n.readAt, n.memory)
	return n.out.apply(t, t.Concat(h, n.read))
}

// oneplus returns 1 + ln(1+e^x).
func oneplus(t *tape.Tape, x *tape.Var) *tape.Var { return t.Affine(t.Softplus(x), 1, 1) }

// use updates the usage u of the slots with the write and read weightings of the previous step: u
// <- (u + w^w - u w^w) (1 - free w^r).
func (n *dnc) use(t *tape.Tape, free *tape.Var) {
	used := t.Sub(t.Add(n.usage, n.written), t.Mul(n.usage, n.written))
	n.usage = t.Mul(used, t.Affine(t.MatMul(free, n.readAt), -1, 1))
}

// order updates the links and the precedence p after a write with weighting w^w: p <- (1 - sum w^w)
// p + w^w.
func (n *dnc) order(t *tape.Tape) {
	n.links = link(t, n.links, n.written, n.precedence)
	kept := t.Affine(t.Sum(n.written), -1, 1)
	n.precedence = t.Add(t.MatMul(kept, n.precedence), n.written)
}
