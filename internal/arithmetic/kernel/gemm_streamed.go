package kernel

const (
	// streamedRows is the number of rows of op(B)ᵀ that are processed together. It is a multiple of
	// the height of a tile and of a transposed block.
	streamedRows = 48

	// streamedMost is the maximum number of rows of A that are packed at once.
	streamedMost = 128
)

// streams reports whether multiplyStreamed is faster than multiply for a piece of C with this size.
// multiplyStreamed computes C as (op(B)ᵀ Aᵀ)ᵀ: it packs A and reads B in place. The result is
// bit-identical, since each element is the same chain of multiply-adds. Without AVX-512 the tiles
// are so slow that packing B does not matter. If B has an Add, B must be copied anyway.
func (e *engine) streams(p *product, rows, cols int) bool {
	panels := (rows + e.micro.cols - 1) / e.micro.cols * e.micro.cols
	return e.vectors.set >= AVX512 && !p.transA && p.b.Add == nil &&
		rows%4 == 0 && cols%8 == 0 && 4*rows >= 3*panels && rows <= streamedMost &&
		2*rows <= min(p.k, blockK, cols)
}

// multiplyStreamed computes the same as multiply, but packs A and reads B in place.
func (e *engine) multiplyStreamed(p *product, i0, i1, j0, j1 int) {
	e.alloc()
	rows, width := i1-i0, e.micro.cols
	for k0 := 0; k0 < p.k; k0 += blockK {
		k := min(blockK, p.k-k0)
		for i := 0; i < rows; i += width {
			src := p.a.Data[(i0+i)*p.a.Stride+k0:]
			e.vectors.packRows(
				e.packed[i*k:], src, nil, p.a.Stride, width, min(width, rows-i), k)
		}
		for j := j0; j < j1; j += streamedRows {
			e.multiplyRows(p, i0, rows, j, min(streamedRows, j1-j), k0, k)
		}
	}
}

// multiplyRows multiplies n rows of op(B)ᵀ, starting at row j, by the packed panels of A. It stores
// the transposed result in C, or adds it to C.
func (e *engine) multiplyRows(p *product, i0, rows, j, n, k0, k int) {
	width, tiles := e.micro.cols, tilesOf(n, e.micro.rows)
	row, col := 1, p.b.Stride
	if p.transB {
		row, col = col, row
	}
	for i := 0; i < rows; i += width {
		for t := range tiles.n {
			first, height := tiles.tile(t)
			e.micro.tile(height, k, p.b.Data[(j+first)*row+k0*col:], row, col,
				e.packed[i*k:], width, e.rows[first*width:], width, false)
		}
		c, cols := p.c.Data[(i0+i)*p.c.Stride+j:], min(width, rows-i)
		if k0 == 0 && !p.acc {
			e.vectors.packRows(c, e.rows[:], nil, width, p.c.Stride, n, cols)
		} else {
			e.vectors.addTransposed(c, e.rows[:], width, p.c.Stride, n, cols)
		}
	}
}
