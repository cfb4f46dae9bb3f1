package kernel

const (
	// blockK is the maximum number of k in one chain of multiply-adds. A packed panel (256,16) then
	// fills half of a 32 KiB first-level cache, and a panel (256,32) fits in a cache of 48 KiB.
	blockK = 256

	// blockRows is the maximum number of rows of C that a thread computes at once in float32. The
	// rows of A for them have 192 KiB, which fits in the second-level cache. blockRows is a
	// multiple of the number of rows of every micro-kernel.
	blockRows = 192

	fewCols   = 16         // columns that a product of few rows computes at a time
	fewK      = 4          // number of k that fewTile processes at a time
	sumK      = 2 * blockK // number of k for which a product of few rows adds B and Add at a time
	sumStride = sumK + 8   // not a power of two, so that rows use different cache lines

	// leftGap is the number of unused elements after each packed tile of A. The gap is needed
	// because packLeft may write this far beyond a tile.
	leftGap = 8

	// leftChunk is the number of k that are packed for all tiles of A before the next k follow.
	// This saves loads, since a cache line of A contains elements of several tiles.
	leftChunk = 16
)

// engine contains the instruction set and the packed operands of one thread. Its arrays are large
// enough for every kernel.
type engine struct {
	panel  [blockK * maxCols]float32    // packed panel of B: [k][micro.cols]
	tile   [maxRows * maxCols]float32   // result of a tile that extends beyond C
	rows   [fewCols * sumStride]float32 // rows of B plus Add, for a product of few rows
	packed []float32                    // part of A, copied or packed in tiles [k][micro.rows]
	bf16   *bf16Scratch                 // the packed operands of products in bf16

	arithmetic Arithmetic
	vectors    Vectors
	micro      *microKernel
	few        int // maximum rows of a product that does not pack B
}

// set prepares an engine for a valid arithmetic.
func (e *engine) set(a Arithmetic) {
	i := a.instructions()
	e.arithmetic, e.vectors, e.micro, e.few = a, Vectors{i}, i.micro(), i.fewRows()
}

// pieceRows returns the maximum number of rows of C that a thread computes at once.
func (e *engine) pieceRows() int {
	if e.arithmetic.Precision == BF16 {
		return bf16BlockRows
	}
	return blockRows
}

// alloc allocates the scratch memory, once.
func (e *engine) alloc() {
	bf16 := e.arithmetic.Precision == BF16
	switch {
	case bf16 && e.bf16 == nil:
		e.bf16 = newBF16Scratch(e.arithmetic.instructions())
	case !bf16 && e.packed == nil:
		e.packed = make([]float32, blockRows*(blockK+leftGap))
	}
}
