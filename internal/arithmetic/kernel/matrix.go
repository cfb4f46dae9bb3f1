package kernel

import "fmt"

// Matrix is a row-major view of a slice. Element (i,j) is Data[i*Stride+j], plus Add[i*Stride+j] if
// Add is not nil. For a model's weights, Data is W and Add is M, and the sum is the effective
// weight W+M. A product computes this sum while it packs the operand, and never stores it. Only the
// right operand of a product may have an Add.
type Matrix struct {
	Data, Add          []float32
	Rows, Cols, Stride int
}

// Mat returns data as a (rows, cols) matrix without gaps between the rows.
func Mat(data []float32, rows, cols int) Matrix {
	return Matrix{Data: data, Rows: rows, Cols: cols, Stride: cols}
}

// RowRange returns a view of rows i to j-1.
func (m Matrix) RowRange(i, j int) Matrix {
	if i < 0 || i > j || j > m.Rows {
		panic(fmt.Sprintf("kernel: rows %d to %d are out of range for a matrix with %d "+
			"rows", i, j, m.Rows))
	}
	return m.view(i, j, 0, m.Cols)
}

// ColRange returns a view of columns i to j-1.
func (m Matrix) ColRange(i, j int) Matrix {
	if i < 0 || i > j || j > m.Cols {
		panic(fmt.Sprintf("kernel: columns %d to %d are out of range for a matrix with %d "+
			"columns", i, j, m.Cols))
	}
	return m.view(0, m.Rows, i, j)
}

func (m Matrix) view(i0, i1, j0, j1 int) Matrix {
	v := Matrix{Rows: i1 - i0, Cols: j1 - j0, Stride: m.Stride}
	if v.Rows == 0 || v.Cols == 0 {
		return v // The indexes of an empty view may be outside Data.
	}
	lo, hi := i0*m.Stride+j0, (i1-1)*m.Stride+j1
	v.Data = m.Data[lo:hi]
	if m.Add != nil {
		v.Add = m.Add[lo:hi]
	}
	return v
}

// check panics unless all elements of the matrix are inside Data and Add. The assembly does not
// check bounds.
func (m *Matrix) check(name string) {
	if m.Rows < 0 || m.Cols < 0 || m.Stride < m.Cols {
		panic(fmt.Sprintf("kernel: matrix %s has shape (%d, %d) and stride %d, expected 0 or "+
			"more, and a stride of at least the number of columns", name, m.Rows,
			m.Cols, m.Stride))
	}
	if m.Rows == 0 || m.Cols == 0 {
		return
	}
	need := (m.Rows-1)*m.Stride + m.Cols
	if len(m.Data) < need || m.Add != nil && len(m.Add) < need {
		panic(fmt.Sprintf("kernel: matrix %s (%d, %d) with stride %d needs %d elements, has %d "+
			"(added: %d)",
			name, m.Rows, m.Cols, m.Stride, need, len(m.Data), len(m.Add)))
	}
}
