package kernel

import "math"

// multiply computes rows i0 to i1-1 and columns j0 to j1-1 of C.
func (e *engine) multiply(p *product, i0, i1, j0, j1 int) {
	if e.streams(p, i1-i0, j1-j0) {
		e.multiplyStreamed(p, i0, i1, j0, j1)
		return
	}
	j0 = e.fewColumns(p, j0, j1)
	tiles := tilesOf(i1-i0, e.micro.rows)
	for k0 := 0; k0 < p.k && j0 < j1; k0 += blockK {
		k1 := min(k0+blockK, p.k)
		left := e.left(p, tiles, i0, i1, k0, k1, j1-j0)
		for j := j0; j < j1; j += e.micro.cols {
			cols := min(e.micro.cols, j1-j)
			right := e.right(p, tiles, j, cols, k0, k1)
			e.multiplyPanel(p, tiles, left, right, i0, j, cols, k0, k1-k0, p.acc || k0 > 0)
		}
	}
}

// fewColumns computes columns from j0 on, fewCols at a time, without packing B. It does nothing if
// the product has enough rows that packing B is faster. It returns the first column that remains to
// be computed.
func (e *engine) fewColumns(p *product, j0, j1 int) int {
	most := e.few
	if p.b.Add == nil {
		most = min(most, 2)
	}
	if !p.transB || p.m > most {
		return j0
	}
	e.padLeft(p)
	for ; j0+fewCols <= j1; j0 += fewCols {
		for k0 := 0; k0 < p.k; k0 += sumK {
			at, k1 := j0*p.b.Stride+k0, min(k0+sumK, p.k)
			b, stride := p.b.Data[at:], p.b.Stride
			if p.b.Add != nil {
				e.sumRows(b, p.b.Add[at:], stride, k1-k0)
				b, stride = e.rows[:], sumStride
			}
			e.fewRows(p, b, stride, j0, k0, k1)
		}
	}
	return j0
}

// fewRows computes columns j to j+fewCols-1 of C for k0 to k1-1, in blocks of k. The parameter b is
// the part of op(B) that starts at column j and k0.
func (e *engine) fewRows(p *product, b []float32, stride, j, k0, k1 int) {
	for k := k0; k < k1; k += blockK {
		n, right := min(blockK, k1-k), b[k-k0:]
		left, row := p.a.Data[k:], p.a.Stride
		if n%fewK != 0 {
			right = e.padRight(p, right, stride, n)
			left, row, stride, n = e.packed, blockK, sumStride, padded(n)
		}
		for i := 0; i < p.m; {
			c := p.c.Data[i*p.c.Stride+j:]
			i += e.vectors.fewTile(p.m-i, n, left[i*row:], row, right, stride, c, p.c.Stride,
				p.acc || k > 0)
		}
	}
}

// The assembly processes fewK values of k at a time. If k is not a multiple of fewK, the last block
// is padded with zeros. The zeros in A are negative: their products are -0, and adding -0 changes
// no sum, not even a sum of -0.

func padded(k int) int { return (k + fewK - 1) &^ (fewK - 1) }

// padLeft copies the last block of k of A to e.packed and pads each row to a multiple of fewK. If k
// is a multiple of fewK, padLeft does nothing.
func (e *engine) padLeft(p *product) {
	if p.k%fewK == 0 {
		return
	}
	e.alloc()
	from := (p.k - 1) / blockK * blockK
	for i := range p.m {
		row := e.packed[i*blockK:][:blockK]
		n := copy(row, p.a.Data[i*p.a.Stride:][from:p.k])
		for i := n; i < padded(n); i++ {
			row[i] = float32(math.Copysign(0, -1))
		}
	}
}

// padRight pads k elements of each of fewCols rows of B and returns the rows at a stride of
// sumStride. If B has an Add, b already has this stride.
func (e *engine) padRight(p *product, b []float32, stride, k int) []float32 {
	if p.b.Add == nil {
		for j := range fewCols {
			copy(e.rows[j*sumStride:][:k], b[j*stride:])
		}
		b = e.rows[:]
	}
	for j := range fewCols {
		clear(b[j*sumStride+k : j*sumStride+padded(k)])
	}
	return b
}

// sumRows sets e.rows to b + add, for fewCols rows of k elements.
func (e *engine) sumRows(b, add []float32, stride, k int) {
	whole := k &^ (fewK - 1)
	if whole > 0 {
		e.vectors.sumRows(e.rows[:], b, add, stride, sumStride, whole)
	}
	for j := 0; j < fewCols && whole < k; j++ {
		for i := whole; i < k; i++ {
			e.rows[j*sumStride+i] = b[j*stride+i] + add[j*stride+i]
		}
	}
}

// leftView is a part of A for the tile kernel. Element (i,k) of a tile is at index i*row + k*col of
// the tile's data.
type leftView struct {
	data           []float32
	step, row, col int // step is the distance between packed tiles, or 0 if A is not packed
}

func (a *leftView) tile(t, i int) []float32 {
	if a.step > 0 {
		return a.data[t*a.step:]
	}
	return a.data[i*a.row:]
}

// left returns rows i0 to i1-1 of op(A) for k0 to k1-1. A transposed A is packed, since its
// adjacent k are a whole row apart. Another A is copied if at least 256 columns use the rows. The
// copy is faster to read, since rows at a stride of a power of two compete for the same cache
// lines.
func (e *engine) left(p *product, tiles rowTiles, i0, i1, k0, k1, cols int) leftView {
	const often = 256
	s, k := p.a.Stride, k1-k0
	if !p.transA && cols < often {
		return leftView{data: p.a.Data[i0*s+k0:], row: s, col: 1}
	}
	e.alloc()
	left := e.packed
	if !p.transA {
		for i := range i1 - i0 {
			copy(left[i*k:][:k], p.a.Data[(i0+i)*s+k0:])
		}
		return leftView{data: left, row: k, col: 1}
	}
	step := e.micro.rows*k + leftGap
	for from := k0; from < k1; from += leftChunk {
		for t := range tiles.n {
			i, rows := tiles.tile(t)
			e.vectors.packLeft(left[t*step+(from-k0)*e.micro.rows:], p.a.Data[from*s+i0+i:], s,
				e.micro.rows, rows, min(leftChunk, k1-from))
		}
	}
	return leftView{data: left, step: step, row: 1, col: e.micro.rows}
}

// rightView is a panel of B for the tile kernel. Element (k,j) is at index k*width + j.
type rightView struct {
	data  []float32
	width int
}

// right returns the panel with columns j to j+cols-1 of op(B) for k0 to k1-1. The panel is packed,
// unless packing would only copy it for one or two tiles.
func (e *engine) right(p *product, tiles rowTiles, j, cols, k0, k1 int) rightView {
	const few = 2
	if !p.transB && p.b.Add == nil && tiles.n <= few && cols == e.micro.cols {
		return rightView{data: p.b.Data[k0*p.b.Stride+j:], width: p.b.Stride}
	}
	e.packRight(p, e.panel[:], j, cols, k0, k1)
	return rightView{data: e.panel[:], width: e.micro.cols}
}

// packRight packs columns j to j+cols-1 of op(B) plus Add, for k0 to k1-1, as [k][micro.cols]. The
// packed columns from cols on have arbitrary content, since their results are dropped.
func (e *engine) packRight(p *product, dst []float32, j, cols, k0, k1 int) {
	b, k := &p.b, k1-k0
	at := k0*b.Stride + j
	if p.transB {
		at = j*b.Stride + k0
	}
	src, add := b.Data[at:], b.Add
	if add != nil {
		add = add[at:]
	}
	if p.transB {
		e.vectors.packRows(dst, src, add, b.Stride, e.micro.cols, cols, k)
	} else {
		e.vectors.packCols(dst, src, add, b.Stride, e.micro.cols, cols, k)
	}
}

// fetchNext prefetches part t of the n parts of the panel that begins at column j. It does so only
// if B is transposed and too large for the caches, as model weights are. The processor's own
// prefetcher fails there, since each row is read in short pieces.
func (e *engine) fetchNext(p *product, t, n, j, k0, k int) {
	const line, near = 16, 1 << 14
	if !p.transB || p.n*p.k < near {
		return
	}
	for r := j + e.micro.cols*t/n; r < min(j+e.micro.cols*(t+1)/n, p.n); r++ {
		at := r*p.b.Stride + k0
		e.vectors.prefetch(p.b.Data[at:], (k+line-1)/line)
		if p.b.Add != nil {
			e.vectors.prefetch(p.b.Add[at:], (k+line-1)/line)
		}
	}
}

// multiplyPanel multiplies the rows of A from i0 on by columns j to j+cols-1 of B, tile by tile.
// Meanwhile it prefetches the next panel.
func (e *engine) multiplyPanel(p *product, tiles rowTiles, a leftView, b rightView, i0, j, cols, k0,
	k int, acc bool) {
	for t := range tiles.n {
		i, rows := tiles.tile(t)
		e.fetchNext(p, t, tiles.n, j+cols, k0, k)
		left, c := a.tile(t, i), p.c.Data[(i0+i)*p.c.Stride+j:]
		if cols == e.micro.cols {
			e.micro.tile(rows, k, left, a.row, a.col, b.data, b.width, c, p.c.Stride, acc)
			continue
		}
		e.micro.tile(rows, k, left, a.row, a.col, b.data, b.width, e.tile[:], e.micro.cols, false)
		copyTile(c, p.c.Stride, e.tile[:], e.micro.cols, rows, cols, acc)
	}
}

// copyTile copies the part of a tile that is inside C to C, or adds that part to C if acc is set.
func copyTile(c []float32, stride int, tile []float32, width, rows, cols int, acc bool) {
	for i := range rows {
		dst, src := c[i*stride:][:cols], tile[i*width:]
		if !acc {
			copy(dst, src)
			continue
		}
		for j := range dst {
			dst[j] += src[j]
		}
	}
}
