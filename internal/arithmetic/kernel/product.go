package kernel

import "fmt"

type product struct {
	c, a, b           Matrix
	m, n, k           int
	transA, transB    bool // if transA is set, a is (k,m); if transB is set, b is (n,k)
	acc               bool
	rowPieces, rows   int
	colPieces, panels int
	width             int
}

// cut divides C into pieces of about equal size, with at most the given number of rows. On one
// thread the columns are not divided, since each piece would pack the same rows of A again. With
// several threads, every thread gets a few pieces, as long as each piece has several panels.
func (p *product) cut(threads, rows, width int) {
	const piecesPerThread, panelsPerPiece = 3, 4
	p.rowPieces = (p.m + rows - 1) / rows
	p.rows = (p.m + p.rowPieces - 1) / p.rowPieces
	p.width = width
	p.panels, p.colPieces = (p.n+width-1)/width, 1
	if threads > 1 {
		want := (threads*piecesPerThread + p.rowPieces - 1) / p.rowPieces
		p.colPieces = min(want, max(threads, p.panels/panelsPerPiece), p.panels)
	}
}

// piece returns the bounds of piece i: rows i0 to i1-1 and columns j0 to j1-1 of C.
func (p *product) piece(i int) (i0, i1, j0, j1 int) {
	row, col := i/p.colPieces, i%p.colPieces
	i0, j0 = row*p.rows, p.panels*col/p.colPieces*p.width
	return i0, min(i0+p.rows, p.m), j0, min(p.panels*(col+1)/p.colPieces*p.width, p.n)
}

func (p *product) check(name string, rightK int) {
	if rightK != p.k || p.c.Rows != p.m || p.c.Cols != p.n {
		panic(fmt.Sprintf("kernel: %s: the shapes of c (%d, %d), a (%d, %d) and b (%d, %d) do "+
			"not fit", name,
			p.c.Rows, p.c.Cols, p.a.Rows, p.a.Cols, p.b.Rows, p.b.Cols))
	}
	p.c.check("c")
	p.a.check("a")
	p.b.check("b")
	if p.c.Add != nil || p.a.Add != nil {
		panic(fmt.Sprintf("kernel: %s: c or a has an Add, expected an Add only in b", name))
	}
}

// clear computes a product with k = 0, which is zero. It clears C unless the product is added to C.
func (p *product) clear() {
	if p.acc {
		return
	}
	for i := range p.m {
		clear(p.c.Data[i*p.c.Stride:][:p.n])
	}
}

// rowTiles divides rows into n tiles of nearly equal size. A tile of few rows takes as long as a
// full tile, so equal sizes are fastest. The first `larger` tiles have rows+1 rows, the rest have
// `rows` rows.
type rowTiles struct{ n, rows, larger int }

func tilesOf(rows, height int) rowTiles {
	n := (rows + height - 1) / height
	return rowTiles{n: n, rows: rows / n, larger: rows % n}
}

func (r rowTiles) tile(t int) (first, rows int) {
	if t < r.larger {
		return t * (r.rows + 1), r.rows + 1
	}
	return t*r.rows + r.larger, r.rows
}
