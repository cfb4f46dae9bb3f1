package kernel

const (
	// blockK is the maximum length of one chain of multiply-adds. A packed panel of 256×16 float32
	// fills half of a first-level cache of 32 KiB. A panel of 256×32 float32 fits in a cache of 48
	// KiB.
	blockK = 256

	// blockRows is the maximum number of rows of C that a thread computes at once in float32. The
	// packed rows of A take 192 KiB, which fits in the second-level cache. blockRows is a multiple
	// of the number of rows of every micro-kernel.
	blockRows = 192

	fewCols = 16
	fewK    = 4
	// sumK is the number of values of k for which sumRows adds B and Add at a time.
	sumK = 2 * blockK
	// The stride is not a power of two, so that rows use different cache lines.
	sumStride = sumK + 8

	// leftGap is the number of unused elements after each packed tile of A. The function packLeft
	// may overwrite them.
	leftGap = 8

	// leftChunk is the number of k that are packed for all tiles of A before the next k follow.
	// This saves loads, since a cache line of A contains elements of several tiles.
	leftChunk = 16
)

// engine contains the instruction set and the packed operands of one thread. Its arrays are large
// enough for every kernel.
type engine struct {
	panel  [blockK * maxCols]float32  // packed panel of B: [k][micro.cols]
	tile   [maxRows * maxCols]float32 // the result of a tile that is partly outside C
	rows   [fewCols * sumStride]float32
	packed []float32 // part of A, copied or packed in tiles [k][micro.rows]
	bf16   *bf16Scratch

	arithmetic Arithmetic
	vectors    Vectors
	micro      *microKernel
	few        int // the maximum number of rows of A that fewTile supports
}

func (e *engine) set(a Arithmetic) {
	i := a.instructions()
	e.arithmetic, e.vectors, e.micro, e.few = a, Vectors{i}, i.micro(), i.fewRows()
}

func (e *engine) alloc() {
	bf16 := e.arithmetic.Precision == BF16
	switch {
	case bf16 && e.bf16 == nil:
		e.bf16 = newBF16Scratch(e.arithmetic.instructions())
	case !bf16 && e.packed == nil:
		e.packed = make([]float32, blockRows*(blockK+leftGap))
	}
}
