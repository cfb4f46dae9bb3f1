package kernel

// The functions in this file pack operands in portable Go. The tests of the assembly compare with
// them. A panel of B has `width` columns, and a tile of A has `height` rows.

// packRowsGo packs the transpose of a panel: dst[p][j] = src[j][p] + add[j][p], for j < n and p <
// k.
func packRowsGo(dst, src, add []float32, stride, width, n, k int) {
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

func addTransposedGo(dst, src []float32, stride, width, n, k int) {
	for j := range n {
		for p, v := range src[j*stride:][:k] {
			dst[p*width+j] += v
		}
	}
}

// packColsGo copies a panel: dst[p][j] = src[p][j] + add[p][j], for j < n and p < k.
func packColsGo(dst, src, add []float32, stride, width, n, k int) {
	for p := range k {
		out := dst[p*width:][:n]
		copy(out, src[p*stride:])
		if add != nil {
			for j, v := range add[p*stride:][:n] {
				out[j] += v
			}
		}
	}
}

// packLeftGo copies a tile of Aᵀ: dst[p][i] = src[p][i] for i < rows and p < k. A row of dst has
// `height` elements.
func packLeftGo(dst, src []float32, stride, height, rows, k int) {
	for p := range k {
		copy(dst[p*height:][:rows], src[p*stride:])
	}
}
