package kernel

import "unsafe"

//go:generate sh -c "cd _generate && go run . bf16 -out ../bf16_amd64.s -stubs ../bf16_amd64.go -pkg kernel"

// pairsAlong packs a tile from rows. It uses portable Go if the assembly does not support the
// tile's size.
func (v Vectors) pairsAlong(dst *[tileWords]uint32, src, add []float32, stride, n, k int) {
	if v.set < AVX512 || !roundsPairs || k < tileK {
		pairsAlongGo(dst, src, add, stride, n, k)
	} else {
		pairsAlongAVX512(&dst[0], &src[0], unsafe.SliceData(add), stride, n)
	}
}

func (v Vectors) pairsAcross(dst *[tileWords]uint32, src, add []float32, stride, n, k int) {
	if v.set < AVX512 || !roundsPairs || k < tileK || n < tileLines {
		pairsAcrossGo(dst, src, add, stride, n, k)
	} else {
		pairsAcrossAVX512(&dst[0], &src[0], unsafe.SliceData(add), stride)
	}
}

func (v Vectors) transposeTile(dst, src *[tileWords]uint32) {
	if v.set >= AVX2 {
		transposeTileAVX2(&dst[0], &src[0])
	} else {
		transposeTileGo(dst, src)
	}
}

// regroup reorders a tile for kernels that add both halves of each word to the same sum.
func (v Vectors) regroup(tile *[tileWords]uint32, right bool) {
	switch {
	case v.set < AVX2:
		regroupGo(tile, right)
	case right:
		regroupRightAVX2(&tile[0])
	default:
		regroupLeftAVX2(&tile[0])
	}
}
