package main

import (
	"cmp"
	"math"
	"slices"

	"github.com/lmserve/lmserve/experiments/tape"
)

// The models share the operations in this file. Weightings and keys are row vectors. A memory is a
// matrix with a row for each slot.

// smooth is added to squared lengths, so that the cosine with an empty slot is 0 instead of
// undefined.
const smooth = 1e-4

// cosine returns the cosine similarities, [1, slots], between a key, [1, width], and each row of a
// memory, [slots, width].
func cosine(t *tape.Tape, key, memory *tape.Var) *tape.Var {
	y, lengths := tape.New(1, memory.Rows), make([]float64, memory.Rows)
	k := length(key.Value)
	for i := range y.Value {
		lengths[i] = length(memory.Row(i))
		y.Value[i] = dot(key.Value, memory.Row(i)) / (k * lengths[i])
	}
	t.Record(func() {
		for i, g := range y.Grad {
			m, c := memory.Row(i), y.Value[i]
			for j, x := range key.Value {
				if key.Grad != nil {
					key.Grad[j] += g * (m[j]/lengths[i] - c*x/k) / k
				}
				if memory.Grad != nil {
					memory.Grad[i*memory.Cols+j] += g * (x/k - c*m[j]/lengths[i]) / lengths[i]
				}
			}
		}
	})
	return y
}

func dot(a, b []float64) (sum float64) {
	for i, x := range a {
		sum += x * b[i]
	}
	return sum
}

func length(a []float64) float64 { return math.Sqrt(dot(a, a) + smooth) }

// content returns softmax(strength * cosine), which weights the slots by their similarity to the
// key.
func content(t *tape.Tape, key, strength, memory *tape.Var) *tape.Var {
	return t.Softmax(t.MatMul(strength, cosine(t, key, memory)))
}

// shift returns the circular convolution of a weighting w with s, where s has the weights of shifts
// by -1, 0 and 1: y_i = sum over j of w_(i-j) s_j.
func shift(t *tape.Tape, w, s *tape.Var) *tape.Var {
	n := w.Cols
	y := tape.New(1, n)
	for i := range n {
		for j := range 3 {
			y.Value[i] += w.Value[(i-j+1+n)%n] * s.Value[j]
		}
	}
	t.Record(func() {
		for i, g := range y.Grad {
			for j := range 3 {
				from := (i - j + 1 + n) % n
				s.Grad[j] += g * w.Value[from]
				if w.Grad != nil {
					w.Grad[from] += g * s.Value[j]
				}
			}
		}
	})
	return y
}

// allocation returns a weighting a that prefers free slots, given the usage u of each slot. If the
// slots are sorted by increasing usage, then a_j = (1 - u_j) u_1 ... u_(j-1). Derivatives treat the
// order as constant.
func allocation(t *tape.Tape, u *tape.Var) *tape.Var {
	n := u.Cols
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(u.Value[a], u.Value[b]) })
	// before[j]: product of the j smallest usages
	y, before := tape.New(1, n), make([]float64, n)
	product := 1.
	for j, slot := range order {
		before[j] = product
		y.Value[slot] = (1 - u.Value[slot]) * product
		product *= u.Value[slot]
	}
	t.Record(func() {
		if u.Grad == nil {
			return
		}
		after := 0. // derivative with respect to before[j+1]
		for j := n - 1; j >= 0; j-- {
			slot := order[j]
			g := y.Grad[slot]
			u.Grad[slot] += before[j] * (after - g)
			after = g*(1-u.Value[slot]) + after*u.Value[slot]
		}
	})
	return y
}

// link returns the temporal links y after a write with weighting w. Parameters l and p are the
// links and the precedence before the write: y_ij = (1 - w_i - w_j) l_ij + w_i p_j, and 0 on the
// diagonal.
func link(t *tape.Tape, l, w, p *tape.Var) *tape.Var {
	n := w.Cols
	y := tape.New(n, n)
	for i, wi := range w.Value {
		for j, wj := range w.Value {
			if i != j {
				y.Value[i*n+j] = (1-wi-wj)*l.Value[i*n+j] + wi*p.Value[j]
			}
		}
	}
	t.Record(func() {
		for i, wi := range w.Value {
			for j, wj := range w.Value {
				g, old := y.Grad[i*n+j], l.Value[i*n+j]
				if i == j || g == 0 {
					continue
				}
				w.Grad[i] += g * (p.Value[j] - old)
				w.Grad[j] -= g * old
				if l.Grad != nil {
					l.Grad[i*n+j] += g * (1 - wi - wj)
				}
				if p.Grad != nil {
					p.Grad[j] += g * wi
				}
			}
		}
	})
	return y
}

// write returns the memory m after a write: m_i (1 - w_i erase) + w_i add for every slot i.
func write(t *tape.Tape, m, w, erase, add *tape.Var) *tape.Var {
	column := t.Transpose(w)
	kept := t.Mul(m, t.Affine(t.MatMul(column, erase), -1, 1))
	return t.Add(kept, t.MatMul(column, add))
}

// mix returns g a + (1-g) b for a scalar g.
func mix(t *tape.Tape, g, a, b *tape.Var) *tape.Var {
	return t.Add(t.MatMul(g, a), t.MatMul(t.Affine(g, -1, 1), b))
}

func zeros(n int) *tape.Var { return tape.Const(1, n, make([]float64, n)) }

func first(n int) *tape.Var {
	w := zeros(n)
	w.Value[0] = 1
	return w
}

type splitter struct {
	t   *tape.Tape
	row *tape.Var
	at  int
}

func (s *splitter) next(n int) *tape.Var {
	s.at += n
	return s.t.Columns(s.row, s.at-n, s.at)
}
