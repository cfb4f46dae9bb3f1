package kernel

const (
	// blockK k's are one chain of multiply-adds: a packed panel (256,16) is half of a
	// first-level cache of 32 KiB, and one of (256,32) fits a cache of 48 KiB.
	blockK = 256

	// blockRows rows of C are one piece of work: their part of A, 192 KiB, stays in the
	// second-level cache. The number is a multiple of every micro-kernel's rows.
	blockRows = 192

	fewCols   = 16         // columns computed at once in a product of few rows
	fewK      = 4          // k's that fewTile takes at once
	sumK      = 2 * blockK // k's of B summed at once in such a product
	sumStride = sumK + 8   // not a power of two

	// leftGap lies between the packed tiles of A: packLeft may write so far beyond one.
	leftGap = 8

	// leftChunk k's of all tiles of A are packed before the next: a cache line of A holds
	// several tiles' elements.
	leftChunk = 16
)

// engine is what one thread multiplies with: the instructions and the packed operands of the
// tile under way, which have room for the kernel with the largest tiles.
type engine struct {
	panel  [blockK * maxCols]float32    // a panel of B: [k][micro.cols]
	tile   [maxRows * maxCols]float32   // a tile that does not lie wholly inside C
	rows   [fewCols * sumStride]float32 // rows of B with Add, in a product of few rows
	packed []float32                    // a piece of A, copied or in tiles [k][micro.rows]
	bf16   *bf16Scratch                 // the packed operands of products in bf16

	arithmetic Arithmetic
	vectors    Vectors
	micro      *microKernel
	few        int // a product of so many rows or fewer does not pack B
}

// set makes an engine for a valid arithmetic.
func (e *engine) set(a Arithmetic) {
	i := a.instructions()
	e.arithmetic, e.vectors, e.micro, e.few = a, Vectors{i}, i.micro(), i.fewRows()
}

// alloc makes the scratch that the first product needs and does not find.
func (e *engine) alloc() {
	bf16 := e.arithmetic.Precision == BF16
	switch {
	case bf16 && e.bf16 == nil:
		e.bf16 = newBF16Scratch(e.arithmetic.instructions())
	case !bf16 && e.packed == nil:
		e.packed = make([]float32, blockRows*(blockK+leftGap))
	}
}
