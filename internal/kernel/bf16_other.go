//go:build !amd64 || noasm

package kernel

func pairsAlong(dst *[tileWords]uint32, src, add []float32, stride, n, k int) {
	pairsAlongGo(dst, src, add, stride, n, k)
}

func pairsAcross(dst *[tileWords]uint32, src, add []float32, stride, n, k int) {
	pairsAcrossGo(dst, src, add, stride, n, k)
}

func transposeTile(dst, src *[tileWords]uint32) { transposeTileGo(dst, src) }
