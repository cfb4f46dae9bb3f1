package kernel

import "math"

// The sizes of tiles are those of AMX: 1 KiB each. A tile of C contains (16,16) float32. A tile of
// A contains 16 rows of 16 pairs, and a tile of B contains 16 pairs by 16 columns. A pair is a
// 32-bit word with two elements of a row or column: element 2p in the lower half, and element 2p+1
// in the upper half.
const (
	tileLines = 16 // number of rows of A, or columns of B, in a tile
	tilePairs = 16
	tileK     = 2 * tilePairs
	tileWords = tileLines * tilePairs

	// panelLines is the side of a square block of C. A block has 4 tiles. With 2 tiles of A and 2
	// of B, a kernel uses all 8 tile registers of the processor.
	panelLines = 2 * tileLines

	// bf16BlockK is the length of a packed block along k. A panel of B then has 32 KiB, which fits
	// in the first-level cache. The value does not affect results.
	bf16BlockK = 512

	// bf16BlockRows is the maximum number of rows of C for which B is packed once. The packed rows
	// of A then have 512 KiB, which fits in the second-level cache.
	bf16BlockRows = 512

	panelWords = panelLines / 2 * bf16BlockK
	leftPanels = bf16BlockRows / panelLines
)

// bf16Kernel computes blocks of C in bf16. All kernels give bit-identical results. The zero value
// is the portable kernel.
type bf16Kernel struct {
	name string

	// blocks computes (32,32) blocks of C that lie one below the other. The sums are over `steps`
	// tiles along k. If acc is set, blocks adds the sums to C. a is [blocks][steps][2][tileWords]
	// and b is [steps][2][tileWords]; blocks and steps are positive. For a single block, a kernel
	// may skip the rows from `rows` on.
	blocks func(blocks, rows, steps int, a, b *uint32, c *float32, stride int, acc bool)

	// chains is true if the kernel adds both products of a packed pair to the same sum. Two
	// adjacent words then contain the elements k+2, k and k+3, k+1, lower halves first. Otherwise,
	// they contain k, k+1 and k+2, k+3.
	chains bool
}

// bf16Scratch contains the packed operands of a bf16 product. A panel has the tiles of 32 lines,
// with shape [k/32][2][tileWords].
type bf16Scratch struct {
	left  [leftPanels * panelWords]uint32
	right [panelWords]uint32
	tile  [tileWords]uint32
	block [panelLines * panelLines]float32 // result of a block that extends beyond C

	kernel bf16Kernel
}

// newBF16Scratch returns scratch memory for the fastest kernel of this machine, or for the portable
// kernel if i is Portable.
func newBF16Scratch(i Instructions) *bf16Scratch {
	s := new(bf16Scratch)
	if i != Portable {
		kernels, _ := kernelsBF16() // not empty, since the arithmetic is valid
		s.kernel = kernels[0]
	}
	return s
}

// tiles computes the given number of rows and at most 32 columns of C from the packed panels. It
// writes blocks inside C directly, and computes a block that extends beyond C in scratch memory.
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

// tilesGo is the portable kernel, and the reference for tests of the other kernels.
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

// tileAt returns the index, in a panel, of the tile with the given line and step along k.
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

// pairsAlongGo packs n lines of k floats, plus add if not nil, as [line][pair]. A line is a row of
// src: dst[i][p] = src[i][2p], src[i][2p+1]. The elements k to 31 of a line become zero.
func pairsAlongGo(dst *[tileWords]uint32, src, add []float32, stride, n, k int) {
	for i := range n {
		out := dst[i*tilePairs:][:tilePairs]
		clear(out)
		for p := range k {
			out[p/2] |= sumBF16(src, add, i*stride+p) << (p % 2 * 16)
		}
	}
}

// pairsAcrossGo packs n lines of k floats, plus add if not nil, as [pair][line]. A line is a column
// of src: dst[p][j] = src[2p][j], src[2p+1][j]. The elements k to 31 of a line become zero.
func pairsAcrossGo(dst *[tileWords]uint32, src, add []float32, stride, n, k int) {
	clear(dst[:])
	for p := range k {
		out := dst[p/2*tileLines:][:n]
		for j := range out {
			out[j] |= sumBF16(src, add, p*stride+j) << (p % 2 * 16)
		}
	}
}

// sumBF16 returns src[i] + add[i], rounded to bfloat16. A subnormal sum becomes zero, as it does in
// the products.
func sumBF16(src, add []float32, i int) uint32 {
	v := src[i]
	if add != nil {
		v += add[i]
	}
	return roundBF16(flush(v))
}

// transposeTileGo sets dst[i][j] = src[j][i].
func transposeTileGo(dst, src *[tileWords]uint32) {
	for i := range tileLines {
		for j := range tileLines {
			dst[i*tileLines+j] = src[j*tileLines+i]
		}
	}
}

// regroupGo reorders a tile for kernels that add both halves of each word to the same sum. The tile
// is from the right operand B if right is set, else from A.
func regroupGo(tile *[tileWords]uint32, right bool) {
	const high = 0xffff << 16
	toNext, toLine := 1, tilePairs // distances in words to the next pair and to the next line
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
