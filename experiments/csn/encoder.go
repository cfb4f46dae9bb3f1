package main

import (
	"math/rand/v2"

	"github.com/lmserve/lmserve/experiments/tape"
)

type encoder struct {
	embeddings *tape.Var
	// factor for each position in a bag of embeddings, [places, width]; nil for an LSTM
	places *tape.Var
	// w and b are the weights and biases of an LSTM: of the gates i, f and o, then of the new cell
	// value.
	w, b  *tape.Var
	width int
}

// newEncoder returns a bag of embeddings if bag is true, else an LSTM. The embeddings remain
// constant, because they were learned from much more text than the tasks have.
func newEncoder(embeddings, places *tape.Var, bag bool, width int, r *rand.Rand) *encoder {
	e := &encoder{embeddings: fixed(embeddings), width: width}
	if bag {
		e.width, e.places = embeddings.Cols, copied(places)
		return e
	}
	e.w, e.b = tape.Glorot(embeddings.Cols+width, 4*width, r), tape.New(1, 4*width)
	for i := range width {
		e.b.Value[width+i] = 1 // the forget gates are open at first
	}
	return e
}

func copied(v *tape.Var) *tape.Var {
	w := tape.New(v.Rows, v.Cols)
	copy(w.Value, v.Value)
	return w
}

// fixed returns a constant that shares the values of a variable.
func fixed(v *tape.Var) *tape.Var { return tape.Const(v.Rows, v.Cols, v.Value) }

func (e *encoder) params() []*tape.Var {
	if e.places != nil {
		return []*tape.Var{e.places}
	}
	return []*tape.Var{e.w, e.b}
}

func (e *encoder) fixed() *encoder {
	f := &encoder{width: e.width, embeddings: e.embeddings}
	if e.places != nil {
		f.places = fixed(e.places)
	} else {
		f.w, f.b = fixed(e.w), fixed(e.b)
	}
	return f
}

// encode returns one row for each window, [windows, width]. For an LSTM, encode also returns the
// cell states after each word. With a shift beta, the LSTM's hidden state is h = (tanh(c) +
// tanh(beta)) o (section 2.5 of the CSN paper). Parameter shift may be nil.
func (e *encoder) encode(t *tape.Tape, all []window, shift *tape.Var) (h *tape.Var,
	cells []*tape.Var) {
	ids := make([]int, len(all))
	at := func(j int) *tape.Var {
		for i, w := range all {
			ids[i] = w[j]
		}
		return t.Gather(e.embeddings, append([]int(nil), ids...))
	}
	if e.places != nil {
		for j := range 2*reach + 1 {
			x := t.Mul(at(j), t.Repeat(e.places.Range(j, j+1), len(all)))
			if h == nil {
				h = x
			} else {
				h = t.Add(h, x)
			}
		}
		return h, nil
	}
	n := e.width
	h = tape.Const(len(all), n, make([]float64, len(all)*n))
	c := h
	if shift != nil {
		shift = t.Tanh(shift)
	}
	for j := range 2*reach + 1 {
		z := t.AddRow(t.MatMul(t.Concat(at(j), h), e.w), e.b)
		gates := t.Sigmoid(t.Columns(z, 0, 3*n))
		c = t.Add(t.Mul(t.Tanh(t.Columns(z, 3*n, 4*n)), t.Columns(gates, 0, n)),
			t.Mul(c, t.Columns(gates, n, 2*n)))
		cells = append(cells, c)
		out := t.Tanh(c)
		if shift != nil {
			out = t.Add(out, shift)
		}
		h = t.Mul(out, t.Columns(gates, 2*n, 3*n))
	}
	return h, cells
}
