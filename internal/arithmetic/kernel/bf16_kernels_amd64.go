//go:build !noasm

package kernel

import "golang.org/x/sys/cpu"

// hasAssembly is true if the assembly functions exist. If false, they panic.
const hasAssembly = true

// kernelsBF16 returns the bf16 kernels that this machine can run, fastest first. If there are none,
// it returns an error with the reason.
func kernelsBF16() (all []bf16Kernel, err error) {
	missing := permitTiles()
	if missing == nil {
		all = append(all, kernelAMX)
	}
	if machine >= AVX512 && roundsPairs {
		all = append(all, kernelDots)
	}
	if all == nil {
		return nil, missing
	}
	return all, nil
}

// kernelDots uses the instruction VDPBF16PS, which adds both products of a pair to one sum.
var kernelDots = bf16Kernel{name: "AVX512-BF16", blocks: dotBlocks, chains: true}

// dotBlocks implements bf16Kernel.blocks. It computes a multiple of eight rows of each block.
//
//go:noescape
func dotBlocks(blocks, rows, steps int, a, b *uint32, c *float32, stride int, acc bool)

// roundsPairs is true if the processor has AVX512-BF16. Then the instruction VCVTNE2PS2BF16 rounds
// the operands while they are packed.
var roundsPairs = cpu.X86.HasAVX512BF16

// pairsAlongAVX512 computes the same as pairsAlongGo for k = 32 and n > 0. add may be nil.
//
//go:noescape
func pairsAlongAVX512(dst *uint32, src, add *float32, stride, n int)

// pairsAcrossAVX512 computes the same as pairsAcrossGo for n = 16 and k = 32. add may be nil.
//
//go:noescape
func pairsAcrossAVX512(dst *uint32, src, add *float32, stride int)
