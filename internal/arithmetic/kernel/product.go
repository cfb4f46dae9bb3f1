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

// cut divides C into pieces of about equal size, with at most blockRows rows. On one thread the
// columns are not divided, since each piece would pack the same rows of A again. With several
// threads, every thread gets a few pieces, as long as each piece has several panels.
func (p *product) cut(threads, width int) {
	const piecesPerThread, panelsPerPiece = 3, 4
	p.rowPieces = (p.m + blockRows - 1) / blockRows
	p.rows = (p.m + p.rowPieces - 1) / p.rowPieces
	p.width = width
	p.panels, p.colPieces = (p.n+width-1)/width, 1
	if threads > 1 {
		want := (threads*piecesPerThread + p.rowPieces - 1) / p.rowPieces
		p.colPieces = min(want, max(threads, p.panels/panelsPerPiece), p.panels)
	}
}

// cutBF16 is cut for a product in bfloat16. Each piece packs its rows of A and its columns of B. So
// pieces are large and nearly square. The threads get equal numbers of pieces, or several each.
func (p *product) cutBF16(threads int) {
	const enough = 3 // pieces for each thread
	lines := func(n int) int { return (n + panelLines - 1) / panelLines }
	p.rowPieces, p.colPieces = (p.m+bf16BlockRows-1)/bf16BlockRows, 1
	p.width, p.panels = panelLines, lines(p.n)
	for {
		n := p.rowPieces * p.colPieces
		moreRows, moreCols := p.rowPieces < lines(p.m), p.colPieces < p.panels
		switch {
		case n%threads == 0 || n >= enough*threads || !moreRows && !moreCols:
			p.rows = (p.m + p.rowPieces - 1) / p.rowPieces
			p.rowPieces = (p.m + p.rows - 1) / p.rows
			return
		case moreRows && (!moreCols || p.m*p.colPieces >= p.n*p.rowPieces):
			p.rowPieces++
		default:
			p.colPieces++
		}
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
