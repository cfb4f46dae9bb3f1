//go:build !noasm

package kernel

import (
	"errors"
	"fmt"

	"golang.org/x/sys/cpu"
	"golang.org/x/sys/unix"
)

// kernelAMX computes products with AMX tiles. It always computes all rows of a block.
var kernelAMX = bf16Kernel{
	name: "AMX",
	blocks: func(blocks, _, steps int, a, b *uint32, c *float32, stride int, acc bool) {
		amxBlocks(blocks, steps, a, b, c, stride, acc)
	},
}

// permitTiles requests permission from Linux to use tiles, once for all threads. Without
// permission, Linux does not save the 8 KiB of tiles when it switches between threads.
func permitTiles() error {
	if !cpu.X86.HasAMXTile || !cpu.X86.HasAMXBF16 {
		return errors.New("this processor lacks the bf16 instructions")
	}
	const requestPermission, tileData = 0x1023, 18 // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
	if _, _, errno := unix.RawSyscall(unix.SYS_ARCH_PRCTL, requestPermission, tileData,
		0); errno != 0 {
		return fmt.Errorf("this processor has the AMX instructions, but the operating system "+
			"does not permit their use (Linux 5.16 or later does): %w", errno)
	}
	return nil
}

// amxBlocks clears the tiles before it returns, since the goroutine may continue on another thread.
//
//go:noescape
func amxBlocks(blocks, steps int, a, b *uint32, c *float32, stride int, acc bool)
