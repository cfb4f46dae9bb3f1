package kernel

import "fmt"

const (
	blockK    = 256 // k's in one chain of multiply-adds: a packed panel (256,16) is half of a 32 KiB L1, (256,32) fits one of 48 KiB
	blockRows = 192 // rows of C in one piece of work: their part of A, 192 KiB, stays in L2. A multiple of micro.rows

	sumK      = 2 * blockK // k's of B summed at once in a product of few rows
	sumStride = sumK + 8   // not a power of two
	leftGap   = 8          // between packed tiles of A: packLeft may write so far beyond one
	leftChunk = 16         // k's packed of all tiles of A before the next: its cache lines hold several tiles'

	// Below this many multiply-adds waking other threads costs more than it saves.
	parallelWork = 200_000
)

// scratch is the packed operands of the tile under way, for the kernel with the
// largest tiles.
type scratch struct {
	right [blockK * maxCols]float32    // a panel of B: [k][micro.cols]
	tile  [maxRows * maxCols]float32   // a tile that does not lie wholly inside C
	rows  [fewCols * sumStride]float32 // rows of B with Add, in a product of few rows
	left  []float32                    // a piece of A, copied or in tiles [k][micro.rows]
	bf16  *bf16Scratch                 // instead, for products in bf16
}

// alloc makes what the first product that needs it has not found.
func (s *scratch) alloc() {
	switch {
	case precision == BF16 && s.bf16 == nil:
		s.bf16 = new(bf16Scratch)
	case precision == Float32 && s.left == nil:
		s.left = make([]float32, blockRows*(blockK+leftGap))
	}
}

// product is one matrix product under way, and the pieces of C it is cut into.
type product struct {
	c, a, b           Matrix
	m, n, k           int
	transA, transB    bool // a is (k,m), b is (n,k)
	acc               bool
	rowPieces, rows   int // rows: of a piece
	colPieces, panels int // panels: of the product
}

// MulNT sets C = A Bᵀ, or adds it to C if acc: c (m,n), a (m,k), b (n,k). C shares
// no memory with A and B. It panics if the shapes do not fit.
func (x *Exec) MulNT(c, a, b Matrix, acc bool) {
	x.product = product{c: c, a: a, b: b, m: a.Rows, n: b.Rows, k: a.Cols, transB: true, acc: acc}
	x.multiply("MulNT", b.Cols)
}

// MulNN sets C = A B, or adds it to C if acc: c (m,n), a (m,k), b (k,n). C shares
// no memory with A and B. It panics if the shapes do not fit.
func (x *Exec) MulNN(c, a, b Matrix, acc bool) {
	x.product = product{c: c, a: a, b: b, m: a.Rows, n: b.Cols, k: a.Cols, acc: acc}
	x.multiply("MulNN", b.Rows)
}

// MulTN sets C = Aᵀ B, or adds it to C if acc: c (m,n), a (k,m), b (k,n). C shares
// no memory with A and B. It panics if the shapes do not fit.
func (x *Exec) MulTN(c, a, b Matrix, acc bool) {
	x.product = product{c: c, a: a, b: b, m: a.Cols, n: b.Cols, k: a.Rows, transA: true, acc: acc}
	x.multiply("MulTN", b.Rows)
}

// multiply runs x.product; k of the right operand is given for the check.
func (x *Exec) multiply(name string, rightK int) {
	p := &x.product
	p.check(name, rightK)
	if p.m == 0 || p.n == 0 {
		return
	}
	if p.k == 0 {
		p.clear()
		return
	}
	threads := x.threads
	if p.m*p.n*p.k < parallelWork {
		threads = 1
	}
	p.cut(threads)
	if pieces := p.rowPieces * p.colPieces; threads > 1 {
		x.Parallel(pieces, p)
	} else {
		for i := range pieces {
			p.Do(x, i)
		}
	}
	x.product = product{} // keep no reference to the caller's memory
}

// cut sets the pieces: their rows are as even as can be, and so are their columns, in
// panels. On one thread a piece has all columns (each piece packs its part of A
// again); else there are so many that every thread finds a few pieces, if that
// leaves them some panels.
func (p *product) cut(threads int) {
	const piecesPerThread, panelsPerPiece = 3, 4 // at least
	p.rowPieces = (p.m + blockRows - 1) / blockRows
	p.rows = (p.m + p.rowPieces - 1) / p.rowPieces
	p.panels, p.colPieces = (p.n+micro.cols-1)/micro.cols, 1
	if threads > 1 {
		want := (threads*piecesPerThread + p.rowPieces - 1) / p.rowPieces
		p.colPieces = min(want, max(threads, p.panels/panelsPerPiece), p.panels)
	}
}

// piece is rows i0 to i1-1 and columns j0 to j1-1 of C.
func (p *product) piece(i int) (i0, i1, j0, j1 int) {
	row, col := i/p.colPieces, i%p.colPieces
	i0, j0 = row*p.rows, p.panels*col/p.colPieces*micro.cols
	return i0, min(i0+p.rows, p.m), j0, min(p.panels*(col+1)/p.colPieces*micro.cols, p.n)
}

func (p *product) check(name string, rightK int) {
	if rightK != p.k || p.c.Rows != p.m || p.c.Cols != p.n {
		panic(fmt.Sprintf("kernel: %s: c (%d, %d), a (%d, %d), b (%d, %d) do not fit", name,
			p.c.Rows, p.c.Cols, p.a.Rows, p.a.Cols, p.b.Rows, p.b.Cols))
	}
	p.c.check("c")
	p.a.check("a")
	p.b.check("b")
	if p.c.Add != nil || p.a.Add != nil {
		panic(fmt.Sprintf("kernel: %s: only b may have an Add", name))
	}
}

// clear is the product over no k at all.
func (p *product) clear() {
	if p.acc {
		return
	}
	for i := range p.m {
		clear(p.c.Data[i*p.c.Stride:][:p.n])
	}
}

// Do computes piece i of C: its rows and columns over the blocks of k, in order.
func (p *product) Do(w *Exec, i int) {
	i0, i1, j0, j1 := p.piece(i)
	if precision == BF16 {
		p.doBF16(w, i0, i1, j0, j1)
		return
	}
	j0 = p.few(w, j0, j1)
	tiles := tilesOf(i1 - i0)
	for k0 := 0; k0 < p.k && j0 < j1; k0 += blockK {
		k1 := min(k0+blockK, p.k)
		left := p.left(w, tiles, i0, i1, k0, k1, j1-j0)
		for j := j0; j < j1; j += micro.cols {
			cols := min(micro.cols, j1-j)
			right := p.right(w, tiles, j, cols, k0, k1)
			p.panel(w, tiles, left, right, i0, j, cols, k0, k1-k0, p.acc || k0 > 0)
		}
	}
}

// few computes columns from j0 on of a product of so few rows that packing B would
// take longer than multiplying, and returns the column up to which it came.
func (p *product) few(w *Exec, j0, j1 int) int {
	most := fewRows
	if p.b.Add == nil {
		most = min(most, 2)
	}
	if !p.transB || p.m > most || p.k%4 != 0 {
		return j0
	}
	for ; j0+fewCols <= j1; j0 += fewCols {
		for k0 := 0; k0 < p.k; k0 += sumK {
			at, k1 := j0*p.b.Stride+k0, min(k0+sumK, p.k)
			b, stride := p.b.Data[at:], p.b.Stride
			if p.b.Add != nil {
				sumRows(w.scratch.rows[:], b, p.b.Add[at:], stride, sumStride, k1-k0)
				b, stride = w.scratch.rows[:], sumStride
			}
			p.fewRows(b, stride, j0, k0, k1)
		}
	}
	return j0
}

// fewRows adds k0 to k1-1, in blocks, to columns j to j+fewCols-1; b is op(B) there.
func (p *product) fewRows(b []float32, stride, j, k0, k1 int) {
	for k := k0; k < k1; k += blockK {
		for i := 0; i < p.m; {
			a, c := p.a.Data[i*p.a.Stride+k:], p.c.Data[i*p.c.Stride+j:]
			i += fewTile(p.m-i, min(blockK, k1-k), a, p.a.Stride, b[k-k0:], stride, c, p.c.Stride, p.acc || k > 0)
		}
	}
}

// leftView is a piece of A as the tile kernel reads it: element (i,k) of a tile is
// at i*row + k*col of tile's.
type leftView struct {
	data           []float32
	step, row, col int // step: from tile to tile if they are packed, else 0
}

// tile is the elements of tile t, which begins i rows down.
func (a *leftView) tile(t, i int) []float32 {
	if a.step > 0 {
		return a.data[t*a.step:]
	}
	return a.data[i*a.row:]
}

// left is rows i0 to i1-1 of op(A) over k0 to k1-1: packed if A is (k,m), where
// neighbouring k's lie a whole row apart; else copied, if used for columns enough to
// pay for it, so that rows at a stride of a power of two do not compete for the cache.
func (p *product) left(w *Exec, tiles rowTiles, i0, i1, k0, k1, cols int) leftView {
	const often = 256
	s, k := p.a.Stride, k1-k0
	if !p.transA && cols < often {
		return leftView{data: p.a.Data[i0*s+k0:], row: s, col: 1}
	}
	w.scratch.alloc()
	left := w.scratch.left
	if !p.transA {
		for i := range i1 - i0 {
			copy(left[i*k:][:k], p.a.Data[(i0+i)*s+k0:])
		}
		return leftView{data: left, row: k, col: 1}
	}
	step := micro.rows*k + leftGap
	for from := k0; from < k1; from += leftChunk {
		for t := range tiles.n {
			i, rows := tiles.tile(t)
			packLeft(left[t*step+(from-k0)*micro.rows:], p.a.Data[from*s+i0+i:], s, rows, min(leftChunk, k1-from))
		}
	}
	return leftView{data: left, step: step, row: 1, col: micro.rows}
}

// rightView is a panel of B as the tile kernel reads it: element (k,j) is at k*width + j.
type rightView struct {
	data  []float32
	width int
}

// right is columns j to j+cols-1 of op(B) over k0 to k1-1: in place if nothing is to be
// done but to copy a panel that so few tiles use, else packed.
func (p *product) right(w *Exec, tiles rowTiles, j, cols, k0, k1 int) rightView {
	const few = 2
	if !p.transB && p.b.Add == nil && tiles.n <= few && cols == micro.cols {
		return rightView{data: p.b.Data[k0*p.b.Stride+j:], width: p.b.Stride}
	}
	p.packRight(w.scratch.right[:], j, cols, k0, k1)
	return rightView{data: w.scratch.right[:], width: micro.cols}
}

// fetchNext asks for part t of n of the panel that begins at column j, if op(B) is
// packed from rows and too large to be near anyway: the weights of a model come from
// far away, in pieces too short for the processor to notice where they lead.
func (p *product) fetchNext(t, n, j, k0, k int) {
	const line, near = 16, 1 << 14
	if !p.transB || p.n*p.k < near {
		return
	}
	for r := j + micro.cols*t/n; r < min(j+micro.cols*(t+1)/n, p.n); r++ {
		at := r*p.b.Stride + k0
		prefetch(p.b.Data[at:], (k+line-1)/line)
		if p.b.Add != nil {
			prefetch(p.b.Add[at:], (k+line-1)/line)
		}
	}
}

// rowTiles cuts rows into n tiles as even as can be, since a tile of few rows takes as
// long as one of more: the first tiles have one row more than the others.
type rowTiles struct{ n, rows, larger int }

func tilesOf(rows int) rowTiles {
	n := (rows + micro.rows - 1) / micro.rows
	return rowTiles{n: n, rows: rows / n, larger: rows % n}
}

// tile is the first row of tile t and the number of its rows.
func (r rowTiles) tile(t int) (first, rows int) {
	if t < r.larger {
		return t * (r.rows + 1), r.rows + 1
	}
	return t*r.rows + r.larger, r.rows
}

// panel multiplies the rows of A from i0 on by the panel of B that holds columns j to
// j+cols-1, tile by tile, and fetches the next one meanwhile.
func (p *product) panel(w *Exec, tiles rowTiles, a leftView, b rightView, i0, j, cols, k0, k int, acc bool) {
	s := &w.scratch
	for t := range tiles.n {
		i, rows := tiles.tile(t)
		p.fetchNext(t, tiles.n, j+cols, k0, k)
		left, c := a.tile(t, i), p.c.Data[(i0+i)*p.c.Stride+j:]
		if cols == micro.cols {
			micro.tile(rows, k, left, a.row, a.col, b.data, b.width, c, p.c.Stride, acc)
			continue
		}
		micro.tile(rows, k, left, a.row, a.col, b.data, b.width, s.tile[:], micro.cols, false)
		copyTile(c, p.c.Stride, s.tile[:], rows, cols, acc)
	}
}

// copyTile moves the part of a tile that lies inside C, by the tile kernel's last step.
func copyTile(c []float32, stride int, tile []float32, rows, cols int, acc bool) {
	for i := range rows {
		dst, src := c[i*stride:][:cols], tile[i*micro.cols:]
		if !acc {
			copy(dst, src)
			continue
		}
		for j := range dst {
			dst[j] += src[j]
		}
	}
}
