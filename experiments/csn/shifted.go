package main

import (
	"math/rand/v2"

	"github.com/lmserve/lmserve/experiments/metanet"
	"github.com/lmserve/lmserve/experiments/tape"
)

// shifted is a model with conditionally shifted neurons (CSN). In the variant LSTM+adaFFN, a
// feed-forward network with shifts follows an LSTM or a bag of embeddings. In the variant adaLSTM,
// the LSTM and the softmax layer have shifts.
type shifted struct {
	encoder   *encoder
	layers    network
	key       network             // f in the CSN paper
	memory    *metanet.Coordinate // g in eq. 2 of the CSN paper; shared by all neurons
	direct    bool                // use direct feedback (eq. 7) instead of gradients (eqs. 5 and 6)
	recurrent bool
}

func newShifted(e *encoder, ways int, direct, recurrent bool, r *rand.Rand) *shifted {
	inputs := 2
	if direct {
		inputs = ways
	}
	m := &shifted{encoder: e, direct: direct, recurrent: recurrent,
		layers: newNetwork(r, e.width, units, units, ways),
		key:    newNetwork(r, e.width, units, units),
		memory: metanet.NewCoordinate(inputs, 20, 1, r)}
	if recurrent {
		m.layers = newNetwork(r, e.width, ways)
	}
	return m
}

func (m *shifted) params() []*tape.Var {
	p := append(m.encoder.params(), m.layers...)
	return append(append(p, m.key...), m.memory.Params()...)
}

func (m *shifted) logits(t *tape.Tape, k task) *tape.Var { return m.predict(t, k, m.describe(k)) }

// predict is the prediction phase of the CSN paper: for each query it reads shifts from the memory
// and computes logits.
func (m *shifted) predict(t *tape.Tape, k task, information []*tape.Var) *tape.Var {
	n := len(k.Support)
	h, _ := m.encoder.encode(t, append(k.Support[:n:n], k.Queries...), nil)
	keys := m.key.last(t, h)
	// attention weights, eq. 3 of the CSN paper
	alpha := metanet.Attention(t, keys.Range(n, keys.Rows), keys.Range(0, n), 1)

	var shifts []*tape.Var
	for _, info := range information {
		values := m.memory.Apply(t, info).Shape(n, info.Rows/n) // eq. 2 of the CSN paper
		shifts = append(shifts, t.MatMul(alpha, values))        // eq. 4 of the CSN paper
	}
	x := h.Range(n, h.Rows)
	if m.recurrent {
		x, _ = m.encoder.encode(t, k.Queries, shifts[0])
		shifts = shifts[1:]
	}
	pre := m.layers.run(t, x, shifts)
	return pre[len(pre)-1]
}

// describe is the description phase of the CSN paper: it runs the model without shifts. It returns
// the conditioning information of each layer, [examples*neurons, numbers]. Training treats this
// information as constant, so training needs no second derivatives.
func (m *shifted) describe(k task) (information []*tape.Var) {
	var inner tape.Tape
	h, cells := m.encoder.fixed().encode(&inner, k.Support, nil)
	pre := m.layers.fixed().run(&inner, h, nil)
	logits := pre[len(pre)-1]
	inner.Backward(inner.CrossEntropy(logits, k.Label, nil))
	if m.recurrent {
		information = append(information, m.ofCells(cells, logits))
	}
	for i, a := range pre {
		switch {
		case !m.direct:
			information = append(information, metanet.Preprocess(a.Grad))
		case i < len(pre)-1:
			slope := make([]float64, len(a.Value))
			for j, x := range a.Value {
				slope[j] = tanhSlope(x)
			}
			information = append(information, feedback(slope, logits))
		default:
			information = append(information, outputFeedback(a))
		}
	}
	return information
}

// ofCells returns the conditioning information of an LSTM's cells. A cell has the same shift at all
// words, so ofCells adds the gradients of all words. With direct feedback, ofCells averages the
// slopes of tanh instead.
func (m *shifted) ofCells(cells []*tape.Var, logits *tape.Var) *tape.Var {
	sum := make([]float64, len(cells[0].Value))
	for _, c := range cells {
		for i, x := range c.Value {
			if m.direct {
				sum[i] += tanhSlope(x) / float64(len(cells))
			} else {
				sum[i] += c.Grad[i]
			}
		}
	}
	if m.direct {
		return feedback(sum, logits)
	}
	return metanet.Preprocess(sum)
}

// feedback computes eq. 7 of the CSN paper for a hidden layer: the errors at the output, multiplied
// by the slope of the neuron's tanh.
func feedback(slope []float64, logits *tape.Var) *tape.Var {
	n, ways := logits.Rows, logits.Cols
	neurons := len(slope) / n
	v := make([]float64, 0, len(slope)*ways)
	for i, s := range slope {
		for _, d := range logits.Grad[i/neurons*ways:][:ways] {
			v = append(v, s*d)
		}
	}
	return tape.Const(len(slope), ways, v)
}

// outputFeedback computes eq. 7 of the CSN paper for the output layer. There, the slope of a neuron
// is a row of the softmax's Jacobian.
func outputFeedback(logits *tape.Var) *tape.Var {
	var t tape.Tape
	p, ways := t.Softmax(logits), logits.Cols
	v := make([]float64, 0, len(p.Value)*ways)
	for i := range p.Rows {
		for l, q := range p.Row(i) {
			for c, d := range logits.Grad[i*ways:][:ways] {
				slope := -q * p.Row(i)[c]
				if c == l {
					slope += q
				}
				v = append(v, slope*d)
			}
		}
	}
	return tape.Const(len(p.Value), ways, v)
}
