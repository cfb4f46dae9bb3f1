package metanet

import (
	"math/rand/v2"

	"github.com/lmserve/lmserve/experiments/tape"
)

// Slots is the memory of Meta Networks (Munkhdalai and Yu, 2017). A slot has a key and the
// gradients of one example's loss. A meta-learner Z turns each gradient into a fast weight. For
// every query, attention to the keys mixes the fast weights of all slots:
//
//	W*_i = Z(grad_i),   alpha = softmax_i(sharpness cos(query, key_i)),   W* = sum_i alpha_i W*_i
//
// Limit is the largest number of slots: beyond it, a new slot replaces the oldest. If Limit is 0,
// the number is unlimited. Every Read computes the fast weights again. The meta-learner thus learns
// from later losses, even for slots that were written before the current tape began. Keys from an
// earlier tape must be constants, because the current tape cannot compute their gradients.
type Slots struct {
	Meta      *Coordinate // the meta-learner Z
	Sharpness float64
	Limit     int
	shapes    [][2]int
	keys      []*tape.Var   // one key for each slot, each of shape (1, d)
	grads     [][]*tape.Var // preprocessed gradients, indexed by matrix and slot
}

// NewSlots returns an empty memory for matrices of the given shapes. Parameter scale is the initial
// magnitude of the fast weights.
func NewSlots(shapes [][2]int, hidden int, scale float64, r *rand.Rand) *Slots {
	return &Slots{Meta: NewCoordinate(2, hidden, scale, r), Sharpness: 1, shapes: shapes,
		grads: make([][]*tape.Var, len(shapes))}
}

// Len returns the number of slots.
func (s *Slots) Len() int { return len(s.keys) }

// Forget removes all slots.
func (s *Slots) Forget() {
	s.keys, s.grads = nil, make([][]*tape.Var, len(s.shapes))
}

// Write adds a slot; if Limit is exceeded, the oldest slot is removed. gradients[i] is the gradient
// of the i-th matrix, row by row.
func (s *Slots) Write(key *tape.Var, gradients [][]float64) {
	s.keys = append(s.keys, key)
	for m, g := range gradients {
		s.grads[m] = append(s.grads[m], Preprocess(g))
	}
	if s.Limit > 0 && len(s.keys) > s.Limit {
		s.keys = s.keys[1:]
		for m := range s.grads {
			s.grads[m] = s.grads[m][1:]
		}
	}
}

// A Reading has the fast weights that were read for several queries.
type Reading struct {
	Attention *tape.Var   // shape (queries, slots)
	Weights   []*tape.Var // fast weights W* of each matrix, with shape (queries, size)
}

// Read returns the fast weights for every row of queries. At least one slot must have been written.
func (s *Slots) Read(t *tape.Tape, queries *tape.Var) Reading {
	keys := t.Below(s.keys...)
	r := Reading{Attention: Attention(t, queries, keys, s.Sharpness)}
	for m, shape := range s.shapes {
		fast := s.Meta.Apply(t, t.Below(s.grads[m]...))
		r.Weights = append(r.Weights,
			t.MatMul(r.Attention, fast.Shape(len(s.keys), shape[0]*shape[1])))
	}
	return r
}

// Product returns x_q W*_q for every query q, where x_q is row q of x. W*_q are the fast weights of
// the given matrix for query q.
func (r Reading) Product(t *tape.Tape, matrix int, x *tape.Var) *tape.Var {
	return RowProduct(t, x, r.Weights[matrix])
}

// RowProduct returns x_q W_q for every row q of x. W_q is a matrix whose elements are row q of w.
func RowProduct(t *tape.Tape, x, w *tape.Var) *tape.Var {
	cols := w.Cols / x.Cols
	y := tape.New(x.Rows, cols)
	for q := range x.Rows {
		for i, a := range x.Row(q) {
			for j, b := range w.Row(q)[i*cols:][:cols] {
				y.Value[q*cols+j] += a * b
			}
		}
	}
	t.Record(func() {
		for q := range x.Rows {
			g := y.Grad[q*cols:][:cols]
			for i, a := range x.Row(q) {
				at, sum := q*w.Cols+i*cols, 0.
				for j, d := range g {
					sum += d * w.Value[at+j]
					if w.Grad != nil {
						w.Grad[at+j] += d * a
					}
				}
				if x.Grad != nil {
					x.Grad[q*x.Cols+i] += sum
				}
			}
		}
	})
	return y
}

// Outer returns the gradient of a matrix W: the outer product of the input x and the gradient with
// respect to x W.
func Outer(x, gradient []float64) []float64 {
	y := make([]float64, 0, len(x)*len(gradient))
	for _, a := range x {
		for _, g := range gradient {
			y = append(y, a*g)
		}
	}
	return y
}
