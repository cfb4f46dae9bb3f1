package sparsemeta

import (
	"math"
	"sort"
	"sync"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
)

// Package kernel defines the grid of a table. In the coordinate u, cells have length
// 2^-GridCellBits up to |x| = e^-7, where z = 2. For larger |x|, cells have length 2^-GridCellBits
// z/(z-1) or less, with z = 1 + e^7 |x|.
const (
	cells    = kernel.GridCells // number of cells for one sign of x
	gridSize = len(kernel.Grid{})

	groupBits = 5 // log2 of the number of grid points per entry of Table.start
	groups    = gridSize>>groupBits + 1
)

// gridCoordinates returns the coordinates u of the grid points: first those with x >= 0, then those
// with x <= 0.
var gridCoordinates = sync.OnceValue(func() *[gridSize]float64 {
	u := new([gridSize]float64)
	for i := range cells + 1 {
		u[i] = coordinate((float64(kernel.GridPoint(i)) - 1) / expP)
		u[cells+1+i] = -u[i]
	}
	return u
})

// Table is a compiled meta-learner: interpolated values of the function g. At agrees with
// Network.Eval up to [Table.ErrorBound].
type Table struct {
	pieces []piece
	values []float64 // values of g at the nodes, two for each piece, in ascending order of u
	grid   kernel.Grid
	u      *[gridSize]float64
	// for each group of grid points, the index of a piece at or below the group's lowest cell
	start [groups]uint16
	ends  []float64
}

// piece is an interval of the coordinate u on which g is affine. It begins where the previous piece
// ends. Its two nodes are inside the piece, because at an end a hidden unit is zero and has no
// derivative.
type piece struct {
	hi      float64
	node    float64 // coordinate u of the piece's first node
	perUnit float64 // 1 / distance between the piece's two nodes, in u
}

const nodeInset = 1. / 8

// Compile returns the table of a meta-learner.
func Compile(n *Network) *Table {
	t := new(Table)
	t.Compile(n)
	return t
}

// Compile sets t to the table of n.
func (t *Table) Compile(n *Network) {
	t.Place(n)
	for i := range t.values {
		t.values[i] = n.evalPreprocessed(t.Node(i))
	}
	t.Fill()
}

// Place chooses the nodes of the table for n. Before using the table, set Values and call Fill.
func (t *Table) Place(n *Network) {
	t.u = gridCoordinates()
	t.ends = n.knots(t.ends)
	count := len(t.ends) - 1
	t.pieces = append(t.pieces[:0], make([]piece, count)...)
	t.values = append(t.values[:0], make([]float64, 2*count)...)
	for i := range t.pieces {
		lo, hi := t.ends[i], t.ends[i+1]
		inset := float64(nodeInset * (hi - lo))
		t.pieces[i] = piece{hi: hi, node: lo + inset, perUnit: 1 / (hi - lo - float64(2*inset))}
	}
}

// Values returns the values of g at the nodes. After Place, the caller must set them.
func (t *Table) Values() []float64 { return t.values }

// Node returns the preprocessed input of node i, 0 <= i < len(Values()).
func (t *Table) Node(i int) (magnitude, sign float64) {
	p := &t.pieces[i/2]
	u := p.node
	if i%2 == 1 {
		u += 1 / p.perUnit
	}
	return preprocessAt(u)
}

// Fill computes the grid from the values at the nodes.
func (t *Table) Fill() {
	above, below := t.u[:cells+1], t.u[cells+1:]
	zero := t.pieceOf(0)
	for i, p := 0, zero; i < len(above); p++ {
		end := i + sort.Search(len(above)-i,
			func(k int) bool { return above[i+k] > t.pieces[p].hi })
		a, b := t.affine(p)
		fillGrid(t.grid[i:end], above[i:end], a, b)
		i = end
	}
	for i, p := 0, zero; i < len(below); p-- {
		end := i + sort.Search(len(below)-i, func(k int) bool { return below[i+k] < t.lo(p) })
		a, b := t.affine(p)
		fillGrid(t.grid[cells+1+i:cells+1+end], below[i:end], a, b)
		i = end
	}
	t.index()
}

func fillGrid(dst []float32, u []float64, a, b float64) {
	u = u[:len(dst)]
	for i := range dst {
		dst[i] = float32(a + float64(b*u[i]))
	}
}

// index sets start: for each group of grid points, the lowest piece in the group's cells. Grid
// points with x < 0 come after the others, in order of decreasing u.
func (t *Table) index() {
	const below = cells >> groupBits // first group whose cells are all below 0
	p := 0
	for g := groups - 1; g >= below; g-- {
		p = t.pieceFrom(p, t.u[min((g+1)<<groupBits, gridSize-1)])
		t.start[g] = uint16(p)
	}
	for g := range below {
		p = t.pieceFrom(p, t.u[g<<groupBits])
		t.start[g] = uint16(p)
	}
}

func (t *Table) lo(p int) float64 {
	if p == 0 {
		return -coordinateMax
	}
	return t.pieces[p-1].hi
}

func (t *Table) affine(p int) (a, b float64) {
	v := t.values[2*p : 2*p+2]
	b = (v[1] - v[0]) * t.pieces[p].perUnit
	return v[0] - float64(b*t.pieces[p].node), b
}

// pieceOf returns the index of the piece that contains u. If two pieces meet at u, it returns the
// lower piece.
func (t *Table) pieceOf(u float64) int {
	last := len(t.pieces) - 1
	return sort.Search(last, func(p int) bool { return u <= t.pieces[p].hi })
}

// pieceFrom returns pieceOf(u). Its search begins at piece p, which must not lie above u.
func (t *Table) pieceFrom(p int, u float64) int {
	for last := len(t.pieces) - 1; p < last && u > t.pieces[p].hi; p++ {
	}
	return p
}

// ErrorBound returns a bound of |At(x) - Network.Eval(x)| for every x: S 2^-10 + V 2^-21. S is the
// largest |dg/du|, and V is the largest |g| at a node. If slopes are at most S, linear
// interpolation over a length h is off by at most S h/2. Cells have h <= 2^-10, which gives half of
// the first term. The rest covers rounding and pieces shorter than pieceMin. In most cells g has no
// kink, and the error is a few units of 2^-23.
func (t *Table) ErrorBound() float64 {
	slope, value := 0., 0.
	for p := range t.pieces {
		_, b := t.affine(p)
		slope = max(slope, math.Abs(b))
		value = max(value, math.Abs(t.values[2*p]), math.Abs(t.values[2*p+1]))
	}
	return float64(slope/(1<<10)) + float64(value/(1<<21))
}

// At returns g(x), interpolated in the grid with the same arithmetic as in updates.
func (t *Table) At(x float32) float32 {
	i, w, ok := kernel.Locate(x)
	if !ok {
		return t.Beyond(x)
	}
	v := t.grid[i]
	return v + float32(w*(t.grid[i+1]-v))
}

// Beyond returns g(x) for an x outside the grid, computed from the nodes.
func (t *Table) Beyond(x float32) float32 {
	u := coordinate(float64(x))
	a, b := t.affine(t.pieceOf(u))
	return float32(a + float64(b*u))
}

// Locate expresses g(x) by values at two nodes: (1-w) Values[node] + w Values[node+1]. Derivatives
// of g with respect to the network's weights combine in the same way, as long as the ends of g's
// pieces do not move. w may be slightly below 0 or above 1.
func (t *Table) Locate(x float32) (node int, w float64) {
	i, f, ok := kernel.Locate(x)
	if !ok {
		u := coordinate(float64(x))
		return t.place(t.pieceOf(u), u)
	}
	u := t.u[i] + float64(float64(f)*(t.u[i+1]-t.u[i]))
	return t.place(t.pieceFrom(int(t.start[i>>groupBits]), u), u)
}

func (t *Table) place(p int, u float64) (node int, w float64) {
	return 2 * p, (u - t.pieces[p].node) * t.pieces[p].perUnit
}
