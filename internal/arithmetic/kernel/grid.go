package kernel

import "math"

// The cells of a Grid. Let z = 1 + GridScale |x|. Each octave of z, from one power of two to the
// next, has 2^GridCellBits cells of equal length. The bits of the float32 z contain the number of
// the cell and the position in the cell.
const (
	GridScale    = 1096.6331584284585992637202382881214324422 // e^7
	GridCellBits = 11
	GridOctaves  = 12 // number of octaves: z < 2^12, and |x| < 3.7
	GridCells    = GridOctaves << GridCellBits

	cellShift = 23 - GridCellBits
	gridEnd   = GridOctaves << 23
	bitsOfOne = 0x3F800000
	perCell   = 1. / (1 << cellShift)
)

// Grid contains a function's values at the grid points: first the points for x >= 0, from 0
// outward, then the points for x <= 0, from 0 outward.
type Grid [2 * (GridCells + 1)]float32

// GridPoint returns z = 1 + GridScale |x| at grid point i, from 0 to GridCells.
func GridPoint(i int) float32 { return math.Float32frombits(uint32(bitsOfOne + i<<cellShift)) }

// Locate returns the index i of the grid point next to x in the direction of 0. w is the position,
// from 0 to 1, between this point and the next. ok is false if x is outside the grid or NaN.
func Locate(x float32) (i uint32, w float32, ok bool) {
	b := math.Float32bits(x)
	z := 1 + float32(math.Float32frombits(b&^(1<<31))*float32(GridScale))
	off := math.Float32bits(z) - bitsOfOne
	i = off>>cellShift + b>>31*(GridCells+1)
	return i, float32(off&(1<<cellShift-1)) * perCell, off < gridEnd
}
