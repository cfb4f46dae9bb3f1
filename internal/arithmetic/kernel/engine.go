package kernel

const (
	// blockK is the number of k's in one chain of multiply-adds. A packed panel (256,16) is half
	// of a first-level cache of 32 KiB, and one of (256,32) fits a cache of 48 KiB.
	blockK = 256

	// blockRows is the number of rows of C in a piece of work in float32. Its part of A, 192 KiB,
	// stays in the second-level cache. The number is a multiple of every micro-kernel's rows.
	blockRows = 192

	fewCols   = 16         // columns that a product of few rows computes at once
	fewK      = 4          // k's that fewTile takes at once
	sumK      = 2 * blockK // k's for which a product of few rows sums B and Add at once
	sumStride = sumK + 8   // not a power of two, so that the rows do not compete in the cache

	// leftGap is the gap between the packed tiles of A, in elements. packLeft may write this far
	// beyond a tile.
	leftGap = 8

	// leftChunk is the number of k's that are packed for all tiles of A before the next k's. This
	// saves loads, since a cache line of A holds elements of several tiles.
	leftChunk = 16
)

// engine holds the instructions and packed operands of one thread. Its arrays are large enough for
// every kernel.
type engine struct {
	panel  [blockK * maxCols]float32    // a panel of B: [k][micro.cols]
	tile   [maxRows * maxCols]float32   // a tile that extends beyond C
	rows   [fewCols * sumStride]float32 // rows of B plus Add, in a product of few rows
	packed []float32                    // a piece of A, copied, or in tiles [k][micro.rows]
	bf16   *bf16Scratch                 // the packed operands of products in bf16

	arithmetic Arithmetic
	vectors    Vectors
	micro      *microKernel
	few        int // a product with at most this number of rows does not pack B
}

// set prepares an engine for a valid arithmetic.
func (e *engine) set(a Arithmetic) {
	i := a.instructions()
	e.arithmetic, e.vectors, e.micro, e.few = a, Vectors{i}, i.micro(), i.fewRows()
}

// pieceRows returns the maximum number of rows of C in a piece of work.
func (e *engine) pieceRows() int {
	if e.arithmetic.Precision == BF16 {
		return bf16BlockRows
	}
	return blockRows
}

// alloc allocates the scratch on the first product.
func (e *engine) alloc() {
	bf16 := e.arithmetic.Precision == BF16
	switch {
	case bf16 && e.bf16 == nil:
		e.bf16 = newBF16Scratch(e.arithmetic.instructions())
	case !bf16 && e.packed == nil:
		e.packed = make([]float32, blockRows*(blockK+leftGap))
	}
}
