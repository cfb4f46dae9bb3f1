package tape

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOperationsMatchFiniteDifferences(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	draw := func(rows, cols int) *Var {
		v := New(rows, cols)
		for i := range v.Value {
			v.Value[i] = 0.3 + r.Float64()
		}
		return v
	}
	a, b, c, row := draw(3, 4), draw(4, 2), draw(3, 4), draw(1, 4)
	params := []*Var{a, b, c, row}
	for name, f := range map[string]func(t *Tape) *Var{
		"MatMul":    func(t *Tape) *Var { return t.MatMul(a, b) },
		"MatMulT":   func(t *Tape) *Var { return t.MatMulT(a, c) },
		"Add":       func(t *Tape) *Var { return t.Add(a, c) },
		"Sub":       func(t *Tape) *Var { return t.Sub(a, c) },
		"Mul":       func(t *Tape) *Var { return t.Mul(a, c) },
		"Div":       func(t *Tape) *Var { return t.Div(a, c) },
		"AddRow":    func(t *Tape) *Var { return t.AddRow(a, row) },
		"Affine":    func(t *Tape) *Var { return t.Affine(a, 3, -1) },
		"ReLU":      func(t *Tape) *Var { return t.ReLU(t.Sub(a, c)) },
		"Tanh":      func(t *Tape) *Var { return t.Tanh(a) },
		"Sigmoid":   func(t *Tape) *Var { return t.Sigmoid(a) },
		"Softplus":  func(t *Tape) *Var { return t.Softplus(t.Sub(a, c)) },
		"Exp":       func(t *Tape) *Var { return t.Exp(a) },
		"Log":       func(t *Tape) *Var { return t.Log(a) },
		"Softmax":   func(t *Tape) *Var { return t.Softmax(a) },
		"Transpose": func(t *Tape) *Var { return t.Transpose(a) },
		"Columns":   func(t *Tape) *Var { return t.Columns(a, 1, 3) },
		"Concat":    func(t *Tape) *Var { return t.Concat(a, c) },
		"Range":     func(t *Tape) *Var { return t.Mul(a.Range(1, 3), c.Range(0, 2)) },
		"Shape":     func(t *Tape) *Var { return t.MatMul(a.Shape(6, 2), b.Shape(2, 4)) },
		"Below":     func(t *Tape) *Var { return t.Below(a, row, c) },
		"Gather":    func(t *Tape) *Var { return t.Gather(a, []int{2, 0, 2}) },
		"Unit":      func(t *Tape) *Var { return t.Unit(a) },
		"CrossEntropy": func(t *Tape) *Var {
			return t.CrossEntropy(a, []int{0, 3, 1}, []float64{1, -2, .5})
		},
		"BinaryCrossEntropy": func(t *Tape) *Var {
			return t.BinaryCrossEntropy(b, []float64{0, 1, 1, 0, 1, 0, .5, 1})
		},
	} {
		loss := func() (*Tape, *Var) {
			var tape Tape
			y := f(&tape)
			// makes the derivatives differ by element
			return &tape, tape.Sum(tape.Mul(y, tape.Tanh(y)))
		}
		ClearGradients(params)
		tape, y := loss()
		tape.Backward(y)
		for p, v := range params {
			for i := range v.Value {
				want := Slope(v, i, loss)
				require.InDelta(t, want, v.Grad[i], 1e-6*(1+math.Abs(want)), "%s: %d %d", name,
					p, i)
			}
		}
	}
}

func TestSolversFindMinimum(t *testing.T) {
	for name, solver := range map[string]Solver{
		"Adam": &Adam{Rate: .02}, "RMSProp": &RMSProp{Rate: .002},
	} {
		x := Const(1, 2, []float64{1, -1})
		x.Grad = make([]float64, 2)
		for range 2000 {
			var tape Tape
			y := tape.Mul(x, Const(1, 2, []float64{1, 10}))
			tape.Backward(tape.Sum(tape.Mul(y, y)))
			solver.Step([]*Var{x})
		}
		require.InDeltaSlice(t, []float64{0, 0}, x.Value, .01, name)
	}
}
