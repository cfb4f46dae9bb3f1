package tape

import "math"

// Range returns the rows lo to hi-1 as a matrix that shares the memory of v.
func (v *Var) Range(lo, hi int) *Var {
	w := &Var{Rows: hi - lo, Cols: v.Cols, Value: v.Value[lo*v.Cols : hi*v.Cols]}
	if v.Grad != nil {
		w.Grad = v.Grad[lo*v.Cols : hi*v.Cols]
	}
	return w
}

// Shape returns v as a (rows, cols) matrix that shares the memory of v.
func (v *Var) Shape(rows, cols int) *Var { return &Var{rows, cols, v.Value, v.Grad} }

// Below stacks matrices with equal numbers of columns into one matrix. The result is a constant if
// all the matrices are constants.
func (t *Tape) Below(all ...*Var) *Var {
	var values []float64
	constant := true
	for _, a := range all {
		values = append(values, a.Value...)
		constant = constant && a.Grad == nil
	}
	y := Const(len(values)/all[0].Cols, all[0].Cols, values)
	if constant {
		return y
	}
	y.Grad = make([]float64, len(values))
	at := 0
	for _, a := range all {
		lo := at
		t.Record(func() {
			for i := range a.Grad {
				a.Grad[i] += y.Grad[lo+i]
			}
		})
		at += len(a.Value)
	}
	return y
}

// Gather returns a matrix with the rows of a table at the indices ids, in that order.
func (t *Tape) Gather(table *Var, ids []int) *Var {
	y := New(len(ids), table.Cols)
	for i, id := range ids {
		copy(y.Row(i), table.Row(id))
	}
	t.Record(func() {
		if table.Grad == nil {
			return
		}
		for i, id := range ids {
			to := table.Grad[id*table.Cols:][:table.Cols]
			for j, g := range y.Grad[i*y.Cols:][:y.Cols] {
				to[j] += g
			}
		}
	})
	return y
}

// Unit scales every row to length 1. Rows of zeros stay zero.
func (t *Tape) Unit(a *Var) *Var {
	const tiny = 1e-8
	y := New(a.Rows, a.Cols)
	norms := make([]float64, a.Rows)
	for i := range a.Rows {
		sum := tiny
		for _, x := range a.Row(i) {
			sum += x * x
		}
		norms[i] = math.Sqrt(sum)
		for j, x := range a.Row(i) {
			y.Row(i)[j] = x / norms[i]
		}
	}
	t.Record(func() {
		if a.Grad == nil {
			return
		}
		for i := range a.Rows {
			g, dot := y.Grad[i*y.Cols:][:y.Cols], 0.
			for j, u := range y.Row(i) {
				dot += u * g[j]
			}
			for j, u := range y.Row(i) {
				a.Grad[i*a.Cols+j] += (g[j] - u*dot) / norms[i]
			}
		}
	})
	return y
}
