//go:build !noasm

package kernel

import (
	"errors"
	"fmt"

	"golang.org/x/sys/cpu"
	"golang.org/x/sys/unix"
)

// permitTiles asks the system, once and for all threads, for the state of the tiles:
// Linux gives no process the 8 KiB that it must save for each thread unasked.
func permitTiles() error {
	if !cpu.X86.HasAMXTile || !cpu.X86.HasAMXBF16 {
		return errors.New("this processor lacks them")
	}
	const requestPermission, tileData = 0x1023, 18 // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
	if _, _, errno := unix.RawSyscall(unix.SYS_ARCH_PRCTL, requestPermission, tileData, 0); errno != 0 {
		return fmt.Errorf("this processor has them, but the system does not permit their use (Linux does from 5.16 on): %w", errno)
	}
	return nil
}

// amxBlocks computes blocks of (32,32) of C, one below the other: sets them, or adds to
// them, from steps tiles of k's. a is [blocks][steps][2][tileWords], b is
// [steps][2][tileWords]; blocks and steps > 0. No state of tiles is left behind, so
// that a goroutine may go on on any thread.
//
//go:noescape
func amxBlocks(blocks, steps int, a, b *uint32, c *float32, stride int, acc bool)

// tilesAMX computes blocks in place where all of them lies in C, and else apart.
func tilesAMX(s *bf16Scratch, rows, cols, steps int, c []float32, stride int, acc bool) {
	whole := 0
	if cols == panelLines {
		whole = rows / panelLines
	}
	if whole > 0 {
		amxBlocks(whole, steps, &s.left[0], &s.right[0], &c[0], stride, acc)
	}
	for i := whole * panelLines; i < rows; i += panelLines {
		left, part, n := &s.left[i*steps*2*tileWords/panelLines], c[i*stride:], min(panelLines, rows-i)
		if acc {
			copyBlock(s.block[:], part, panelLines, stride, n, cols)
		}
		amxBlocks(1, steps, left, &s.right[0], &s.block[0], panelLines, acc)
		copyBlock(part, s.block[:], stride, panelLines, n, cols)
	}
}

func copyBlock(dst, src []float32, dstStride, srcStride, rows, cols int) {
	for i := range rows {
		copy(dst[i*dstStride:][:cols], src[i*srcStride:])
	}
}
