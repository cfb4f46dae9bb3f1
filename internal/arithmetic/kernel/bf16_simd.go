//go:build amd64 && !noasm

package kernel

import "golang.org/x/sys/cpu"

//go:generate sh -c "cd _generate && go run . bf16 -out ../bf16_amd64.s -stubs ../bf16_amd64.go -pkg kernel"

// pairsAlong packs a tile; what the assembly does not cover is left to Go.
func (v Vectors) pairsAlong(dst *[tileWords]uint32, src, add []float32, stride, n, k int) {
	switch {
	case v.set < AVX2 || k < tileK:
		pairsAlongGo(dst, src, add, stride, n, k)
	case add == nil:
		pairsAlongAVX2(&dst[0], &src[0], stride, n)
	default:
		pairsAlongAddAVX2(&dst[0], &src[0], &add[0], stride, n)
	}
}

// pairsAcross packs a tile.
func (v Vectors) pairsAcross(dst *[tileWords]uint32, src, add []float32, stride, n, k int) {
	switch {
	case v.set < AVX2 || k < tileK || n < tileLines:
		pairsAcrossGo(dst, src, add, stride, n, k)
	case add == nil:
		pairsAcrossAVX2(&dst[0], &src[0], stride)
	default:
		pairsAcrossAddAVX2(&dst[0], &src[0], &add[0], stride)
	}
}

func (v Vectors) transposeTile(dst, src *[tileWords]uint32) {
	if v.set >= AVX2 {
		transposeTileAVX2(&dst[0], &src[0])
	} else {
		transposeTileGo(dst, src)
	}
}

// regroup makes pairs of a tile ones of single chains.
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

// kernelsBF16 are the kernels for bf16 of this machine, the fastest first, or why there is none.
func kernelsBF16() (all []bf16Kernel, err error) {
	missing := permitTiles()
	if missing == nil {
		all = append(all, kernelAMX)
	}
	if machine >= AVX512 && cpu.X86.HasAVX512BF16 {
		all = append(all, kernelDots)
	}
	if all == nil {
		return nil, missing
	}
	return all, nil
}

// kernelDots is by the instruction VDPBF16PS, which goes on along one chain of an element.
var kernelDots = bf16Kernel{name: "AVX512-BF16", blocks: dotBlocks, chains: true}

// dotBlocks is bf16Kernel.blocks for eight rows, or a multiple, of each block.
//
//go:noescape
func dotBlocks(blocks, rows, steps int, a, b *uint32, c *float32, stride int, acc bool)
