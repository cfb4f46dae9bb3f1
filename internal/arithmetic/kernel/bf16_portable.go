package kernel

import "math"

// The tiles are those of AMX, of 1 KiB each. A tile of C has (16,16) float32. A tile of A has 16
// rows of 16 pairs of k's, and a tile of B has 16 pairs of k's by 16 columns. A pair is one word,
// with the even k in its lower half.
const (
	tileLines = 16 // rows of A or columns of B in a tile
	tilePairs = 16
	tileK     = 2 * tilePairs
	tileWords = tileLines * tilePairs

	// panelLines is the side of a block of C, which has 4 tiles. With 2 of A and 2 of B they use
	// the processor's 8 tiles.
	panelLines = 2 * tileLines

	// bf16BlockK is the number of k's packed at once: a panel of B, 32 KiB, stays in the
	// first-level cache. It does not affect the bits of a result.
	bf16BlockK = 512

	panelWords = panelLines / 2 * bf16BlockK
	leftPanels = (blockRows + panelLines - 1) / panelLines
)

// bf16Kernel computes blocks of C in bf16. All kernels give the same bits. The zero value is
// portable.
type bf16Kernel struct {
	name string // of its instructions

	// blocks sets, or adds to, blocks of (32,32) of C, one below the other, from steps tiles of
	// k's. a is [blocks][steps][2][tileWords], b is [steps][2][tileWords]; blocks and steps > 0.
	// For a single block it may skip the rows from `rows` on.
	blocks func(blocks, rows, steps int, a, b *uint32, c *float32, stride int, acc bool)

	// chains says that a pair holds two k's of one chain. Instead of (k, k+1) and (k+2, k+3),
	// adjacent pairs are then (k+2, k) and (k+3, k+1), lower halves first.
	chains bool
}

// bf16Scratch holds the packed operands of a product in bf16. A panel is 32 lines in tiles:
// [k/32][2][tileWords].
type bf16Scratch struct {
	left  [leftPanels * panelWords]uint32  // of A, all rows of a piece
	right [panelWords]uint32               // of B
	tile  [tileWords]uint32                // to be transposed
	block [panelLines * panelLines]float32 // a block that exceeds C

	kernel bf16Kernel
}

// newBF16Scratch returns scratch for the fastest kernel of this machine, or for the portable one.
func newBF16Scratch(i Instructions) *bf16Scratch {
	s := new(bf16Scratch)
	if i != Portable {
		kernels, _ := kernelsBF16() // a valid arithmetic has at least one
		s.kernel = kernels[0]
	}
	return s
}

// tiles computes rows of C, and cols <= 32 columns, from the packed panels. It computes blocks
// inside C in place, and others in scratch.
func (s *bf16Scratch) tiles(rows, cols, steps int, c []float32, stride int, acc bool) {
	if s.kernel.blocks == nil {
		tilesGo(s, rows, cols, steps, c, stride, acc)
		return
	}
	whole := 0
	if cols == panelLines {
		whole = rows / panelLines
	}
	if whole > 0 {
		s.kernel.blocks(whole, panelLines, steps, &s.left[0], &s.right[0], &c[0], stride, acc)
	}
	for i := whole * panelLines; i < rows; i += panelLines {
		left, part, n := &s.left[i*steps*2*tileWords/panelLines], c[i*stride:],
			min(panelLines, rows-i)
		if acc {
			copyBlock(s.block[:], part, panelLines, stride, n, cols)
		}
		s.kernel.blocks(1, n, steps, left, &s.right[0], &s.block[0], panelLines, acc)
		copyBlock(part, s.block[:], stride, panelLines, n, cols)
	}
}

func copyBlock(dst, src []float32, dstStride, srcStride, rows, cols int) {
	for i := range rows {
		copy(dst[i*dstStride:][:cols], src[i*srcStride:])
	}
}

// tilesGo is the reference of the kernels.
func tilesGo(s *bf16Scratch, rows, cols, steps int, c []float32, stride int, acc bool) {
	for i := range rows {
		left := s.left[i/panelLines*steps*2*tileWords:]
		for j := range cols {
			sum := &c[i*stride+j]
			if !acc {
				*sum = 0
			}
			for step := range steps {
				a := left[tileAt(step, i%panelLines)+i%tileLines*tilePairs:]
				b := s.right[tileAt(step, j)+j%tileLines:]
				*sum = addFlushed(*sum, dotBF16(a, b))
			}
		}
	}
}

// tileAt returns the index in a panel of the tile of a step and a line.
func tileAt(step, line int) int { return (2*step + line/tileLines) * tileWords }

// dotBF16 returns the scalar product of a row of a tile of A and a column of a tile of B.
func dotBF16(a, b []uint32) float32 {
	const high = 0xffff << 16
	var even, odd float32
	for p := range tilePairs {
		x, y := a[p], b[p*tileLines]
		even = fmaFlushed(math.Float32frombits(x<<16), math.Float32frombits(y<<16), even)
		odd = fmaFlushed(math.Float32frombits(x&high), math.Float32frombits(y&high), odd)
	}
	return addFlushed(even, odd)
}

// pairsAlongGo packs n lines, each k floats in a row, as [line][pair]: dst[i][p] = src[i][2p],
// src[i][2p+1], plus add. k's up to 32 become zero.
func pairsAlongGo(dst *[tileWords]uint32, src, add []float32, stride, n, k int) {
	for i := range n {
		out := dst[i*tilePairs:][:tilePairs]
		clear(out)
		for p := range k {
			out[p/2] |= sumBF16(src, add, i*stride+p) << (p % 2 * 16)
		}
	}
}

// pairsAcrossGo packs n lines, the k's of each in a column, as [pair][line]: dst[p][j] =
// src[2p][j], src[2p+1][j], plus add. k's up to 32 become zero.
func pairsAcrossGo(dst *[tileWords]uint32, src, add []float32, stride, n, k int) {
	clear(dst[:])
	for p := range k {
		out := dst[p/2*tileLines:][:n]
		for j := range out {
			out[j] |= sumBF16(src, add, p*stride+j) << (p % 2 * 16)
		}
	}
}

// sumBF16 returns src[i] + add[i], rounded.
func sumBF16(src, add []float32, i int) uint32 {
	v := src[i]
	if add != nil {
		v += add[i]
	}
	return roundBF16(v)
}

// transposeTileGo sets dst[i][j] = src[j][i].
func transposeTileGo(dst, src *[tileWords]uint32) {
	for i := range tileLines {
		for j := range tileLines {
			dst[i*tileLines+j] = src[j*tileLines+i]
		}
	}
}

// regroupGo rearranges the pairs of a tile of A, or of B if right, into pairs of single chains.
func regroupGo(tile *[tileWords]uint32, right bool) {
	const high = 0xffff << 16
	toNext, toLine := 1, tilePairs // from a pair to the next of its line, and to the next line
	if right {
		toNext, toLine = tileLines, 1
	}
	for line := range tileLines {
		for p := 0; p < tilePairs; p += 2 {
			at := line*toLine + p*toNext
			x, y := tile[at], tile[at+toNext]
			tile[at], tile[at+toNext] = x<<16|y&^high, x&high|y>>16
		}
	}
}
