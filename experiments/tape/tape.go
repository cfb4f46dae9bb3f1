// Package tape differentiates functions of matrices. The methods of a Tape compute values and
// record how to propagate derivatives. Backward then adds the derivatives of a scalar to the field
// Grad of each Var that the scalar depends on.
package tape

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
)

// A Var is a matrix in row-major order with its gradient, the derivative of the loss. Grad is nil
// for a constant.
type Var struct {
	Rows, Cols  int
	Value, Grad []float64
}

// New returns a matrix of zeros with a gradient.
func New(rows, cols int) *Var {
	return &Var{rows, cols, make([]float64, rows*cols), make([]float64, rows*cols)}
}

// Const returns a constant (rows, cols) matrix that shares the memory of value.
func Const(rows, cols int, value []float64) *Var {
	if len(value) != rows*cols {
		panic(fmt.Sprintf("tape: Const(%d,%d): found %d values, want rows times "+
			"columns", rows, cols, len(value)))
	}
	return &Var{rows, cols, value, nil}
}

// Row returns a row of the matrix.
func (v *Var) Row(i int) []float64 { return v.Value[i*v.Cols : (i+1)*v.Cols] }

func (v *Var) general(data []float64) blas64.General {
	return blas64.General{Rows: v.Rows, Cols: v.Cols, Stride: v.Cols, Data: data}
}

func (v *Var) same(op string, w *Var) {
	if v.Rows != w.Rows || v.Cols != w.Cols {
		panic(fmt.Sprintf("tape: %s of matrices (%d,%d) and (%d,%d), want equal "+
			"shapes", op, v.Rows, v.Cols, w.Rows, w.Cols))
	}
}

// A Tape records the operations of one computation. The zero value is ready for use.
type Tape struct{ back []func() }

// Record adds a step for Backward to run. Backward runs the steps in reverse order.
func (t *Tape) Record(step func()) { t.back = append(t.back, step) }

// Backward adds the derivatives of a (1,1) loss to the gradients of all variables. It also empties
// the tape.
func (t *Tape) Backward(loss *Var) {
	if loss.Rows*loss.Cols != 1 {
		panic(fmt.Sprintf("tape: Backward of (%d,%d), want a scalar", loss.Rows, loss.Cols))
	}
	loss.Grad[0]++
	for i := len(t.back) - 1; i >= 0; i-- {
		t.back[i]()
	}
	t.back = t.back[:0]
}

// MatMul returns the matrix product a b.
func (t *Tape) MatMul(a, b *Var) *Var { return t.product(blas.NoTrans, a, b) }

// MatMulT returns the matrix product a bᵀ.
func (t *Tape) MatMulT(a, b *Var) *Var { return t.product(blas.Trans, a, b) }

func (t *Tape) product(transB blas.Transpose, a, b *Var) *Var {
	k, n := b.Rows, b.Cols
	if transB == blas.Trans {
		k, n = n, k
	}
	if a.Cols != k {
		panic(fmt.Sprintf("tape: product of matrices (%d,%d) and (%d,%d), want as many columns "+
			"in the first as rows in the second", a.Rows, a.Cols, k, n))
	}
	y := New(a.Rows, n)
	gemm(blas.NoTrans, transB, a, a.Value, b, b.Value, y, y.Value)
	t.Record(func() {
		if a.Grad != nil {
			gemm(blas.NoTrans, flip(transB), y, y.Grad, b, b.Value, a, a.Grad)
		}
		switch {
		case b.Grad == nil:
		case transB == blas.Trans:
			gemm(blas.Trans, blas.NoTrans, y, y.Grad, a, a.Value, b, b.Grad)
		default:
			gemm(blas.Trans, blas.NoTrans, a, a.Value, y, y.Grad, b, b.Grad)
		}
	})
	return y
}

func flip(t blas.Transpose) blas.Transpose {
	if t == blas.Trans {
		return blas.NoTrans
	}
	return blas.Trans
}

// gemm adds the product of x and y to z. The slices x, y and z are the values or gradients of the
// matrices a, b and c.
func gemm(ta, tb blas.Transpose, a *Var, x []float64, b *Var, y []float64, c *Var, z []float64) {
	blas64.Gemm(ta, tb, 1, a.general(x), b.general(y), 1, c.general(z))
}

// Add returns a + b for matrices of equal shape.
func (t *Tape) Add(a, b *Var) *Var {
	a.same("Add", b)
	return t.zip(a, b, func(x, y float64) (z, dx, dy float64) { return x + y, 1, 1 })
}

// Sub returns a - b for matrices of equal shape.
func (t *Tape) Sub(a, b *Var) *Var {
	a.same("Sub", b)
	return t.zip(a, b, func(x, y float64) (z, dx, dy float64) { return x - y, 1, -1 })
}

// Mul returns the element-wise product of matrices of equal shape.
func (t *Tape) Mul(a, b *Var) *Var {
	a.same("Mul", b)
	return t.zip(a, b, func(x, y float64) (z, dx, dy float64) { return x * y, y, x })
}

// Div returns the element-wise quotient of matrices of equal shape.
func (t *Tape) Div(a, b *Var) *Var {
	a.same("Div", b)
	return t.zip(a, b, func(x, y float64) (z, dx, dy float64) { return x / y, 1 / y, -x / (y * y) })
}

// zip applies f to every pair of elements. f returns a value and its two partial derivatives.
func (t *Tape) zip(a, b *Var, f func(x, y float64) (z, dx, dy float64)) *Var {
	y := New(a.Rows, a.Cols)
	for i := range y.Value {
		y.Value[i], _, _ = f(a.Value[i], b.Value[i])
	}
	t.Record(func() {
		for i, g := range y.Grad {
			_, dx, dy := f(a.Value[i], b.Value[i])
			if a.Grad != nil {
				a.Grad[i] += g * dx
			}
			if b.Grad != nil {
				b.Grad[i] += g * dy
			}
		}
	})
	return y
}

// AddRow adds the row vector b to every row of a.
func (t *Tape) AddRow(a, b *Var) *Var { return t.Add(a, t.Repeat(b, a.Rows)) }

// Repeat returns a matrix with n copies of a row.
func (t *Tape) Repeat(row *Var, n int) *Var {
	y := New(n, row.Cols)
	for i := range n {
		copy(y.Row(i), row.Value)
	}
	t.Record(func() {
		if row.Grad == nil {
			return
		}
		for i, g := range y.Grad {
			row.Grad[i%row.Cols] += g
		}
	})
	return y
}

// Map applies f to every element. d returns the derivative of f, given x and y = f(x).
func (t *Tape) Map(a *Var, f func(x float64) float64, d func(x, y float64) float64) *Var {
	y := New(a.Rows, a.Cols)
	for i, x := range a.Value {
		y.Value[i] = f(x)
	}
	t.Record(func() {
		if a.Grad == nil {
			return
		}
		for i, g := range y.Grad {
			a.Grad[i] += g * d(a.Value[i], y.Value[i])
		}
	})
	return y
}

// Affine returns scale * a + shift, element by element.
func (t *Tape) Affine(a *Var, scale, shift float64) *Var {
	return t.Map(a, func(x float64) float64 { return scale*x + shift },
		func(_, _ float64) float64 { return scale })
}

// ReLU returns max(0, a), element by element.
func (t *Tape) ReLU(a *Var) *Var {
	return t.Map(a, func(x float64) float64 { return max(x, 0) }, func(x, _ float64) float64 {
		if x > 0 {
			return 1
		}
		return 0
	})
}

// Tanh returns the hyperbolic tangent.
func (t *Tape) Tanh(a *Var) *Var {
	return t.Map(a, math.Tanh, func(_, y float64) float64 { return 1 - y*y })
}

// Sigmoid returns 1/(1+e^-a).
func (t *Tape) Sigmoid(a *Var) *Var {
	return t.Map(a, sigmoid, func(_, y float64) float64 { return y * (1 - y) })
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

func softplus(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }

// Softplus returns ln(1+e^a).
func (t *Tape) Softplus(a *Var) *Var {
	return t.Map(a, softplus,
		func(x, _ float64) float64 { return sigmoid(x) })
}

// Exp returns e^a.
func (t *Tape) Exp(a *Var) *Var {
	return t.Map(a, math.Exp, func(_, y float64) float64 { return y })
}

// Log returns ln(max(a, 1e-12)), element by element.
func (t *Tape) Log(a *Var) *Var {
	return t.Map(a, func(x float64) float64 { return math.Log(max(x, 1e-12)) },
		func(x, _ float64) float64 { return 1 / max(x, 1e-12) })
}

// Softmax returns the softmax of every row.
func (t *Tape) Softmax(a *Var) *Var {
	y := New(a.Rows, a.Cols)
	for i := range a.Rows {
		softmax(y.Row(i), a.Row(i))
	}
	t.Record(func() {
		if a.Grad == nil {
			return
		}
		for i := range a.Rows {
			p, g := y.Row(i), y.Grad[i*y.Cols:][:y.Cols]
			mean := 0.
			for j := range p {
				mean += p[j] * g[j]
			}
			for j := range p {
				a.Grad[i*a.Cols+j] += p[j] * (g[j] - mean)
			}
		}
	})
	return y
}

func softmax(p, x []float64) {
	top, sum := math.Inf(-1), 0.
	for _, v := range x {
		top = max(top, v)
	}
	for j, v := range x {
		p[j] = math.Exp(v - top)
		sum += p[j]
	}
	for j := range p {
		p[j] /= sum
	}
}

// CrossEntropy returns the weighted sum over rows of -log softmax(logits)[target], a scalar. If
// weights is nil, all weights are 1.
func (t *Tape) CrossEntropy(logits *Var, targets []int, weights []float64) *Var {
	p, y := make([]float64, len(logits.Value)), New(1, 1)
	weight := func(i int) float64 {
		if weights == nil {
			return 1
		}
		return weights[i]
	}
	for i, target := range targets {
		row := p[i*logits.Cols:][:logits.Cols]
		softmax(row, logits.Row(i))
		y.Value[0] -= weight(i) * math.Log(max(row[target], 1e-300))
	}
	t.Record(func() {
		if logits.Grad == nil {
			return
		}
		for i, target := range targets {
			g := y.Grad[0] * weight(i)
			for j := range logits.Cols {
				logits.Grad[i*logits.Cols+j] += g * p[i*logits.Cols+j]
			}
			logits.Grad[i*logits.Cols+target] -= g
		}
	})
	return y
}

// BinaryCrossEntropy returns the sum of -log P(target) over binary targets, a scalar. The
// probability of target 1 is the sigmoid of its logit.
func (t *Tape) BinaryCrossEntropy(logits *Var, targets []float64) *Var {
	y := New(1, 1)
	for i, x := range logits.Value {
		y.Value[0] += max(x, 0) - x*targets[i] + math.Log1p(math.Exp(-math.Abs(x)))
	}
	t.Record(func() {
		for i, x := range logits.Value {
			logits.Grad[i] += y.Grad[0] * (sigmoid(x) - targets[i])
		}
	})
	return y
}

// Sum returns the sum of all elements, a scalar.
func (t *Tape) Sum(a *Var) *Var {
	y := New(1, 1)
	for _, x := range a.Value {
		y.Value[0] += x
	}
	t.Record(func() {
		if a.Grad == nil {
			return
		}
		for i := range a.Grad {
			a.Grad[i] += y.Grad[0]
		}
	})
	return y
}

// Transpose returns aᵀ.
func (t *Tape) Transpose(a *Var) *Var {
	y := New(a.Cols, a.Rows)
	for i := range a.Rows {
		for j := range a.Cols {
			y.Value[j*y.Cols+i] = a.Value[i*a.Cols+j]
		}
	}
	t.Record(func() {
		if a.Grad == nil {
			return
		}
		for i := range a.Rows {
			for j := range a.Cols {
				a.Grad[i*a.Cols+j] += y.Grad[j*y.Cols+i]
			}
		}
	})
	return y
}

// Columns returns a copy of the columns lo to hi-1.
func (t *Tape) Columns(a *Var, lo, hi int) *Var {
	y := New(a.Rows, hi-lo)
	for i := range a.Rows {
		copy(y.Row(i), a.Row(i)[lo:hi])
	}
	t.Record(func() {
		if a.Grad == nil {
			return
		}
		for i, g := range y.Grad {
			a.Grad[i/y.Cols*a.Cols+lo+i%y.Cols] += g
		}
	})
	return y
}

// Concat places matrices with equal numbers of rows side by side.
func (t *Tape) Concat(all ...*Var) *Var {
	cols := 0
	for _, a := range all {
		cols += a.Cols
	}
	y := New(all[0].Rows, cols)
	at := 0
	for _, a := range all {
		for i := range a.Rows {
			copy(y.Row(i)[at:], a.Row(i))
		}
		lo := at
		t.Record(func() {
			if a.Grad == nil {
				return
			}
			for i := range a.Grad {
				a.Grad[i] += y.Grad[i/a.Cols*y.Cols+lo+i%a.Cols]
			}
		})
		at += a.Cols
	}
	return y
}
