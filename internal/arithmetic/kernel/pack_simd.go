package kernel

// packRows transposes a panel in blocks of eight rows and four columns. If the panel's size is not
// a multiple of a block, the last block overlaps the previous one. Portable Go packs panels that
// are smaller than a block.
func (v Vectors) packRows(dst, src, add []float32, stride, width, n, k int) {
	if v.set < AVX2 || n < 8 || k < 4 {
		packRowsGo(dst, src, add, stride, width, n, k)
		return
	}
	for j := 0; j < n; j += 8 {
		j = min(j, n-8)
		v.packEightRows(dst[j:], src, add, j*stride, stride, width, k&^3)
		if k%4 != 0 {
			v.packEightRows(dst[(k-4)*width+j:], src, add, j*stride+k-4, stride, width, 4)
		}
	}
}

func (Vectors) packEightRows(dst, src, add []float32, at, stride, width, k int) {
	if add == nil {
		packRowsAVX2(&dst[0], &src[at], stride, width, k)
	} else {
		packRowsAddAVX2(&dst[0], &src[at], &add[at], stride, width, k)
	}
}

// addTransposed adds the transpose of src to dst in blocks of eight rows and four columns. If the
// size of src is not a multiple of a block, addTransposed uses portable Go.
func (v Vectors) addTransposed(dst, src []float32, stride, width, n, k int) {
	if v.set < AVX2 || n%8 != 0 || k%4 != 0 {
		addTransposedGo(dst, src, stride, width, n, k)
		return
	}
	for j := 0; j < n; j += 8 {
		addTransposedAVX2(&dst[j], &src[j*stride], stride, width, k)
	}
}

// packCols copies a panel, 16 columns at a time. The columns of dst from n on have arbitrary
// content.
func (v Vectors) packCols(dst, src, add []float32, stride, width, n, k int) {
	if v.set < AVX2 {
		packColsGo(dst, src, add, stride, width, n, k)
		return
	}
	const block = 16
	for j := 0; j < n; j += block {
		size := len(src) - j
		if add != nil {
			size = min(size, len(add)-j)
		}
		whole := 0
		if size >= block {
			whole = min(k, (size-block)/stride+1)
		}
		switch {
		case whole == 0:
		case add == nil:
			packColsAVX2(&dst[j], &src[j], stride, width, whole)
		default:
			packColsAddAVX2(&dst[j], &src[j], &add[j], stride, width, whole)
		}
		if at := whole*stride + j; whole < k {
			more := add
			if more != nil {
				more = more[at:]
			}
			packColsGo(dst[whole*width+j:], src[at:], more, stride, width, min(block, n-j), k-whole)
		}
	}
}

// packLeft packs k rows of a tile of Aᵀ. It copies 8 or 16 columns at a time as long as src has
// enough elements.
func (v Vectors) packLeft(dst, src []float32, stride, height, rows, k int) {
	wide, pack := 8, packLeft8AVX2
	if height > 8 {
		wide, pack = 16, packLeft16AVX2
	}
	whole := 0
	if v.set >= AVX2 && len(src) >= wide {
		whole = min(k, (len(src)-wide)/stride+1)
		pack(&dst[0], &src[0], stride, height, whole)
	}
	if whole < k {
		packLeftGo(dst[whole*height:], src[whole*stride:], stride, height, rows, k-whole)
	}
}

// fewTile multiplies the first rows of A, at most four, by fewCols rows of B. It returns the number
// of rows of A that it multiplied. k must be a multiple of 4.
func (v Vectors) fewTile(rows, k int, a []float32, row int, b []float32, width int, c []float32,
	stride int, acc bool) int {
	switch {
	case rows >= 4:
		few4AVX2(k, &a[0], row, &b[0], width, &c[0], stride, acc)
		return 4
	case rows >= 2:
		few2AVX2(k, &a[0], row, &b[0], width, &c[0], stride, acc)
		return 2
	}
	few1AVX2(k, &a[0], row, &b[0], width, &c[0], stride, acc)
	return 1
}

// sumRows sets dst[j*width+p] = src[j*stride+p] + add[j*stride+p] for j < fewCols and p < k. k must
// be a multiple of 4.
func (v Vectors) sumRows(dst, src, add []float32, stride, width, k int) {
	sumRowsAVX2(&dst[0], &src[0], &add[0], stride, width, k)
}

func (v Vectors) prefetch(data []float32, lines int) {
	if v.set >= AVX2 {
		prefetchAVX2(&data[0], lines)
	}
}
