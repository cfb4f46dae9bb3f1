package kernel

// packRight packs columns j to j+cols-1 of op(B), k0 to k1-1, as [k][micro.cols], and
// adds B's Add on the way. Columns that do not exist hold anything: what the tile
// kernel makes of them is dropped.
func (p *product) packRight(dst []float32, j, cols, k0, k1 int) {
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
		packRows(dst, src, add, b.Stride, cols, k)
	} else {
		packCols(dst, src, add, b.Stride, cols, k)
	}
}

// packRowsGo transposes: dst[p][j] = src[j][p] + add[j][p], for j < n and p < k.
func packRowsGo(dst, src, add []float32, stride, n, k int) {
	width := micro.cols
	for j := range n {
		row := src[j*stride:][:k]
		if add == nil {
			for p, v := range row {
				dst[p*width+j] = v
			}
			continue
		}
		more := add[j*stride:][:k]
		for p, v := range row {
			dst[p*width+j] = v + more[p]
		}
	}
}

// packColsGo copies: dst[p][j] = src[p][j] + add[p][j], for j < n and p < k.
func packColsGo(dst, src, add []float32, stride, n, k int) {
	for p := range k {
		out := dst[p*micro.cols:][:n]
		copy(out, src[p*stride:])
		if add != nil {
			for j, v := range add[p*stride:][:n] {
				out[j] += v
			}
		}
	}
}

// packLeftGo copies rows i < rows of a tile of Aᵀ: dst[p][i] = src[p][i], for p < k,
// with micro.rows elements to a row of dst.
func packLeftGo(dst, src []float32, stride, rows, k int) {
	for p := range k {
		copy(dst[p*micro.rows:][:rows], src[p*stride:])
	}
}
