package main

import (
	"math/rand/v2"

	"github.com/lmserve/lmserve/experiments/tape"
)

// usageDecay is gamma in eq. 5 of the MANN paper.
const usageDecay = 0.95

// mann is a memory-augmented network with least recently used access (Santoro et al., 2016, section
// 3). An LSTM controls one head. In each step the head writes its key to the memory, and then reads
// with the same key.
type mann struct {
	size sizes
	cell *cell
	keys layer
	// weight for interpolation between the last read slot and the least used slot
	alpha  *tape.Var
	out    layer
	memory *tape.Var // M in the MANN paper, with a row for each slot
	usage  []float64 // w^u in the MANN paper; derivatives treat w^u as constant
	readAt *tape.Var // read weighting, w^r in the MANN paper
	read   *tape.Var // read vector, r in the MANN paper
}

func newMANN(s sizes, r *rand.Rand) *mann {
	return &mann{size: s, cell: newCell(s.inputs+s.width, s.units, r),
		keys: newLayer(s.units, s.width+1, r), alpha: tape.New(1, 1),
		out: newLayer(s.units+s.width, s.outputs, r)}
}

func (n *mann) params() []*tape.Var {
	all := append(append(n.cell.params(), n.keys.params()...), n.out.params()...)
	return append(all, n.alpha)
}

func (n *mann) begin() {
	n.cell.begin()
	n.memory = constant(n.size.slots, n.size.width, 0)
	n.usage = make([]float64, n.size.slots)
	n.readAt, n.read = zeros(n.size.slots), zeros(n.size.width)
}

func (n *mann) step(t *tape.Tape, x *tape.Var) *tape.Var {
	h := n.cell.step(t, t.Concat(x, n.read))
	parts := splitter{t: t, row: n.keys.apply(t, h)}
	key := t.Tanh(parts.next(n.size.width))
	strength := oneplus(t, parts.next(1)) // our addition; always 1 in the MANN paper

	least := n.leastUsed()
	written := mix(t, t.Sigmoid(n.alpha), n.readAt, least) // eq. 7 of the MANN paper
	n.memory = t.Mul(n.memory, without(least, n.size.width))
	n.memory = t.Add(n.memory, t.MatMul(t.Transpose(written), key)) // eq. 8 of the MANN paper

	n.readAt = content(t, key, strength, n.memory) // eqs. 2 and 3 of the MANN paper
	n.read = t.MatMul(n.readAt, n.memory)          // eq. 4 of the MANN paper
	for i := range n.usage {                       // eq. 5 of the MANN paper
		n.usage[i] = usageDecay*n.usage[i] + n.readAt.Value[i] + written.Value[i]
	}
	return n.out.apply(t, t.Concat(h, n.read))
}

// leastUsed returns a weighting that is 1 for the least used slot and 0 elsewhere (eq. 6 of the
// MANN paper). Derivatives treat the weighting as constant.
func (n *mann) leastUsed() *tape.Var {
	least := 0
	for i, u := range n.usage {
		if u < n.usage[least] {
			least = i
		}
	}
	w := zeros(n.size.slots)
	w.Value[least] = 1
	return w
}

func without(w *tape.Var, width int) *tape.Var {
	m := constant(w.Cols, width, 1)
	for i, x := range w.Value {
		if x == 1 {
			clear(m.Row(i))
		}
	}
	return m
}
