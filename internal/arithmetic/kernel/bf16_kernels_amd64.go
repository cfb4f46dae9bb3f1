//go:build !noasm

package kernel

import "golang.org/x/sys/cpu"

// hasAssembly says that the assembly exists; without it its functions panic.
const hasAssembly = true

// kernelsBF16 returns the bf16 kernels of this machine, fastest first, or an error with the
// reason why there are none.
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

// kernelDots uses the instruction VDPBF16PS, which continues one chain of an element.
var kernelDots = bf16Kernel{name: "AVX512-BF16", blocks: dotBlocks, chains: true}

// dotBlocks is bf16Kernel.blocks for a multiple of eight rows of each block.
//
//go:noescape
func dotBlocks(blocks, rows, steps int, a, b *uint32, c *float32, stride int, acc bool)
