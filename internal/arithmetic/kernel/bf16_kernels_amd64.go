//go:build !noasm

package kernel

import "golang.org/x/sys/cpu"

// hasAssembly says that the functions of the assembly are not those that panic.
const hasAssembly = true

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
