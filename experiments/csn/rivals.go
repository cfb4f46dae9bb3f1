package main

import (
	"math/rand/v2"

	"github.com/lmserve/lmserve/experiments/metanet"
	"github.com/lmserve/lmserve/experiments/tape"
)

// static is a model that ignores the support set.
type static struct {
	encoder *encoder
	layers  network
}

func newStatic(e *encoder, ways int, r *rand.Rand) *static {
	return &static{e, newNetwork(r, e.width, units, units, ways)}
}

func (m *static) params() []*tape.Var { return append(m.encoder.params(), m.layers...) }

func (m *static) logits(t *tape.Tape, k task) *tape.Var {
	h, _ := m.encoder.encode(t, k.Queries, nil)
	return m.layers.last(t, h)
}

// matching compares each query with the support set (Matching Networks, Vinyals et al., 2016,
// without full context embeddings).
type matching struct {
	encoder *encoder
	key     network
}

func newMatching(e *encoder, r *rand.Rand) *matching {
	return &matching{e, newNetwork(r, e.width, units, units)}
}

func (m *matching) params() []*tape.Var { return append(m.encoder.params(), m.key...) }

func (m *matching) logits(t *tape.Tape, k task) *tape.Var {
	n := len(k.Support)
	h, _ := m.encoder.encode(t, append(k.Support[:n:n], k.Queries...), nil)
	keys := m.key.last(t, h)
	alpha := metanet.Attention(t, keys.Range(n, keys.Rows), keys.Range(0, n), matchingSharpness)
	labels := tape.Const(n, k.Ways, make([]float64, n*k.Ways))
	for i, l := range k.Label {
		labels.Row(i)[l] = 1
	}
	return t.Log(t.MatMul(alpha, labels))
}

// matchingSharpness multiplies the cosine similarities. With the factor 1, as in the Matching
// Networks paper, the training loss hardly falls.
const matchingSharpness = 10

// slotUnits is the hidden width of slotted's meta-learner. A small width saves time, because the
// meta-learner runs for every weight of every example.
const slotUnits = 8

// slotted is the original MetaNet (Munkhdalai and Yu, 2017), applied to the encoder's output. The
// fast weights W* form a second layer next to each slow layer W: tanh(x W) + tanh(x W*). The matrix
// Q, which computes the keys, has fast weights Q*. The gradient of a classification of the support
// set determines Q*.
type slotted struct {
	encoder *encoder
	layers  network
	slots   *metanet.Slots
	q, head *tape.Var           // Q, and a layer that classifies representations
	dynamic *metanet.Coordinate // computes the fast weights Q* from the gradients of Q
}

func newSlotted(e *encoder, ways int, r *rand.Rand) *slotted {
	m := &slotted{encoder: e, layers: newNetwork(r, e.width, units, units, ways),
		q: tape.Glorot(e.width, units, r), head: tape.Glorot(units, ways, r),
		dynamic: metanet.NewCoordinate(2, 20, 1, r)}
	var shapes [][2]int
	for _, w := range m.layers.matrices() {
		shapes = append(shapes, [2]int{w.Rows, w.Cols})
	}
	m.slots = metanet.NewSlots(shapes, slotUnits, 1, r)
	return m
}

func (m *slotted) params() []*tape.Var {
	p := append(m.encoder.params(), m.layers...)
	p = append(append(p, m.q, m.head), m.dynamic.Params()...)
	return append(p, m.slots.Meta.Params()...)
}

func (m *slotted) logits(t *tape.Tape, k task) *tape.Var {
	n := len(k.Support)
	h, _ := m.encoder.encode(t, append(k.Support[:n:n], k.Queries...), nil)
	fast := m.dynamic.Apply(t, m.representationGradient(k, h.Range(0, n)))
	fast = fast.Shape(m.q.Rows, m.q.Cols)
	keys := t.Add(t.Tanh(t.MatMul(h, m.q)), t.Tanh(t.MatMul(h, fast)))

	m.write(k, h.Range(0, n), keys)
	x := h.Range(n, h.Rows)
	read := m.slots.Read(t, keys.Range(n, keys.Rows))
	for i := 0; i < len(m.layers); i += 2 {
		slow := t.AddRow(t.MatMul(x, m.layers[i]), m.layers[i+1])
		if i == len(m.layers)-2 {
			return t.Add(slow, read.Product(t, i/2, x))
		}
		x = t.Add(t.Tanh(slow), t.Tanh(read.Product(t, i/2, x)))
	}
	panic("no layer")
}

// representationGradient returns the preprocessed gradient of the support set's mean loss with
// respect to the matrix Q. The loss for training does not depend on the head, so the head keeps its
// random initial weights.
func (m *slotted) representationGradient(k task, h *tape.Var) *tape.Var {
	var inner tape.Tape
	q := copied(m.q)
	logits := inner.MatMul(inner.Tanh(inner.MatMul(fixed(h), q)), fixed(m.head))
	loss := inner.CrossEntropy(logits, k.Label, nil)
	inner.Backward(inner.Affine(loss, 1/float64(len(k.Label)), 0))
	return metanet.Preprocess(q.Grad)
}

// write stores the gradients of each support example in a memory slot.
func (m *slotted) write(k task, h, keys *tape.Var) {
	var inner tape.Tape
	pre := m.layers.fixed().run(&inner, fixed(h), nil)
	inner.Backward(inner.CrossEntropy(pre[len(pre)-1], k.Label, nil))
	m.slots.Forget()
	for i := range k.Support {
		var gradients [][]float64
		x := h.Row(i)
		for _, a := range pre {
			gradients = append(gradients, metanet.Outer(x, a.Grad[i*a.Cols:][:a.Cols]))
			x = inner.Tanh(tape.Const(1, a.Cols, a.Row(i))).Value
		}
		m.slots.Write(keys.Range(i, i+1), gradients)
	}
}
