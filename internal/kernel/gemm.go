package kernel

import "fmt"

const (
	blockK    = 256 // k's in one chain of multiply-adds: a packed panel (256,16) is half of a 32 KiB L1
	blockRows = 192 // rows of C in one piece of work: their part of A, 192 KiB, stays in L2. A multiple of micro.rows

	// Below this many multiply-adds waking other threads costs more than it saves.
	parallelWork = 200_000
)

// scratch is the packed operands of the tile under way, for the kernel with the
// largest tiles.
type scratch struct {
	right [blockK * maxCols]float32  // a panel of B: [k][micro.cols]
	tile  [maxRows * maxCols]float32 // a tile that does not lie wholly inside C
	left  []float32                  // tiles of A: [blockRows/micro.rows][k][micro.rows], made by the first TN product
	bf16  *bf16Scratch               // made by the first product in bf16
}

// product is one matrix product under way, and the pieces of C it is cut into.
type product struct {
	c, a, b        Matrix
	m, n, k        int
	transA, transB bool // a is (k,m), b is (n,k)
	acc            bool
	cols           int // columns of C in one piece of work
	colPieces      int
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
	rowPieces := (p.m + blockRows - 1) / blockRows
	threads := x.threads
	if p.m*p.n*p.k < parallelWork {
		threads = 1
	}
	p.cut(rowPieces, threads)
	if pieces := rowPieces * p.colPieces; threads > 1 {
		x.Parallel(pieces, p)
	} else {
		for i := range pieces {
			p.Do(x, i)
		}
	}
	x.product = product{} // keep no reference to the caller's memory
}

// cut chooses the columns of a piece: all of them on one thread (each piece packs
// its part of A again), else so many that every thread finds a few pieces.
func (p *product) cut(rowPieces, threads int) {
	const piecesPerThread, panels = 3, 4 // at least
	p.cols, p.colPieces = p.n, 1
	if threads > 1 {
		want := (threads*piecesPerThread + rowPieces - 1) / rowPieces
		p.cols = micro.cols * max(panels, (p.n/want+micro.cols-1)/micro.cols)
		p.colPieces = (p.n + p.cols - 1) / p.cols
	}
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
	i0, j0 := i/p.colPieces*blockRows, i%p.colPieces*p.cols
	i1, j1 := min(i0+blockRows, p.m), min(j0+p.cols, p.n)
	if precision == BF16 {
		p.doBF16(w, i0, i1, j0, j1)
		return
	}
	for k0 := 0; k0 < p.k; k0 += blockK {
		k1 := min(k0+blockK, p.k)
		left := p.left(w, i0, i1, k0, k1)
		for j := j0; j < j1; j += micro.cols {
			cols := min(micro.cols, j1-j)
			p.packRight(w.scratch.right[:], j, cols, k0, k1)
			p.panel(w, left, i0, i1, j, cols, k1-k0, p.acc || k0 > 0)
		}
	}
}

// leftView is a piece of A as the tile kernel reads it: the tile that begins r rows
// down begins at data[r*step], and there element (i,k) is at i*row + k*col.
type leftView struct {
	data           []float32
	step, row, col int
}

// left is rows i0 to i1-1 of op(A) over k0 to k1-1: in place if A is (m,k), packed
// if A is (k,m), where neighbouring k's lie a whole row apart.
func (p *product) left(w *Exec, i0, i1, k0, k1 int) leftView {
	if !p.transA {
		s := p.a.Stride
		return leftView{data: p.a.Data[i0*s+k0:], step: s, row: s, col: 1}
	}
	if w.scratch.left == nil {
		w.scratch.left = make([]float32, blockRows*blockK)
	}
	k := k1 - k0
	for i := i0; i < i1; i += micro.rows {
		packLeft(w.scratch.left[(i-i0)*k:], p.a.Data[k0*p.a.Stride+i:], p.a.Stride, min(micro.rows, i1-i), k)
	}
	return leftView{data: w.scratch.left, step: k, row: 1, col: micro.rows}
}

// panel multiplies rows i0 to i1-1 of A by the packed panel of B that holds columns
// j to j+cols-1, tile by tile.
func (p *product) panel(w *Exec, a leftView, i0, i1, j, cols, k int, acc bool) {
	s := &w.scratch
	for i := i0; i < i1; i += micro.rows {
		rows := min(micro.rows, i1-i)
		left, c := a.data[(i-i0)*a.step:], p.c.Data[i*p.c.Stride+j:]
		if cols == micro.cols {
			micro.tile(rows, k, left, a.row, a.col, s.right[:], c, p.c.Stride, acc)
			continue
		}
		micro.tile(rows, k, left, a.row, a.col, s.right[:], s.tile[:], micro.cols, false)
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
