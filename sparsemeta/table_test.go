package sparsemeta

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// awkward returns inputs at the edges of the float range and of the table's grid.
func awkward() []float32 {
	edge := float32(math.Exp(-7))
	end := float32(4095 / expP) // the grid ends at z = 1 + e^7 x = 4096
	values := []float32{0, 1, 30, edge, end, math.MaxFloat32, math.SmallestNonzeroFloat32, 0x1p-126,
		0x1p-127, 1e-20, float32(math.Inf(1))}
	for _, v := range slices.Clone(values) {
		values = append(values, math.Nextafter32(v, 0), math.Nextafter32(v, float32(math.Inf(1))))
	}
	for _, v := range slices.Clone(values) {
		values = append(values, float32(math.Copysign(float64(v), -1)))
	}
	return append(values, float32(math.NaN()), -float32(math.NaN()))
}

func requireAgreement(t require.TestingT, n *Network, table *Table, x float32) {
	want, got := n.Eval(float64(x)), float64(table.At(x))
	if !(math.Abs(want-got) <= table.ErrorBound()) {
		require.Failf(t, "off", "at %v: %v, want %v within %v", x, got, want, table.ErrorBound())
	}
}

func TestTableMatchesNetworkOverWholeFloatRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := drawNetwork(t)
		table := Compile(n)
		for _, x := range awkward() {
			requireAgreement(t, n, table, x)
		}
		for _, u := range table.ends { // the error is largest near the ends of pieces
			for _, d := range []float64{-3e-4, -1e-5, 0, 1e-5, 3e-4} {
				requireAgreement(t, n, table, float32(inverse(u+d)))
			}
		}
		for _, bits := range rapid.SliceOfN(rapid.Uint32(), 150, 150).Draw(t, "bits") {
			requireAgreement(t, n, table, math.Float32frombits(bits))
		}
	})
}

// inverse returns the x with coordinate(x) = u.
func inverse(u float64) float64 {
	y := math.Abs(u)
	if y > 1 {
		y = math.Exp(y - 1)
	}
	return math.Copysign(y/expP, u)
}

// For inputs distributed like gradients, the table's error is at most 5e-4 of the largest |g|. Most
// errors are ten thousand times smaller.
func TestTableIsCloseOnRealisticInputs(t *testing.T) {
	for _, d := range scales {
		for k := range 5 {
			n := new(Network)
			d.draw(n, uint64(k))
			table := Compile(n)
			largest, errors := 0., []float64{}
			for i := range uint64(3000) {
				x := float32(math.Exp(2.5*normal(7, 2*i)-7) * normal(8, 2*i))
				g := n.Eval(float64(x))
				largest = max(largest, math.Abs(g))
				errors = append(errors, math.Abs(g-float64(table.At(x))))
			}
			slices.Sort(errors)
			require.Less(t, errors[len(errors)-1], 5e-4*largest)
			require.Less(t, errors[len(errors)/2], 5e-7*largest)
		}
	}
}

func TestTableIsContinuousAcrossCellsAndSigns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := Compile(drawNetwork(t))
		require.Equal(t, table.At(0), table.At(float32(math.Copysign(0, -1))))
		require.Equal(t, table.At(0), table.At(float32(math.NaN())))
		x := math.Float32frombits(rapid.Uint32().Draw(t, "bits"))
		if x != x {
			return
		}
		next := math.Nextafter32(x, float32(math.Inf(1)))
		slope := table.ErrorBound() * (1 << 10)
		step := math.Abs(coordinate(float64(next)) - coordinate(float64(x)))
		require.InDelta(t, float64(table.At(x)), float64(table.At(next)), slope*(step+1e-6)+1e-6)
	})
}

// Node values, interpolated as Locate says, give g(x). The error is the grid's rounding of the
// coordinate (2^-22, see kernel.Locate).
func TestNodesReproduceTheNetwork(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := drawNetwork(t)
		table := Compile(n)
		slope := table.ErrorBound() * (1 << 10)
		check := func(x float32) {
			node, w := table.Locate(x)
			require.Zero(t, node%2)
			require.True(t, w > -0.2 && w < 1.2, "w = %v", w)
			v := table.Values()
			got, want := (1-w)*v[node]+w*v[node+1], n.Eval(float64(x))
			require.InDelta(t, want, got, 4e-6*slope+1e-9*math.Abs(want), "x = %v", x)
		}
		for _, x := range awkward() {
			check(x)
		}
		for _, bits := range rapid.SliceOfN(rapid.Uint32(), 100, 100).Draw(t, "bits") {
			check(math.Float32frombits(bits))
		}
	})
}

// The derivative with respect to the weights jumps at the ends of pieces. So the test skips inputs
// within 1e-5 of an end.
func TestNodesReproduceTheDerivative(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := drawNetwork(t)
		table := Compile(n)
		x := math.Float32frombits(rapid.Uint32Range(0, 0x41FFFFFF).Draw(t, "bits"))
		if rapid.Bool().Draw(t, "negative") {
			x = -x
		}
		for _, u := range table.ends {
			if math.Abs(u-coordinate(float64(x))) < 1e-5 {
				t.Skip("beside a knot")
			}
		}
		node, w := table.Locate(x)
		want, got := direct(n, float64(x)), combined(n, table, node, w)
		for i := range want {
			require.InDelta(t, want[i], got[i], 1e-5*(1+math.Abs(want[i])), "weight %d", i)
		}
	})
}

func direct(n *Network, x float64) (grad [NetworkSize]float64) {
	n.Backward(x, 1, &grad)
	return grad
}

func combined(n *Network, table *Table, node int, w float64) (grad [NetworkSize]float64) {
	n.Backward(table.nodeInput(node), 1-w, &grad)
	n.Backward(table.nodeInput(node+1), w, &grad)
	return grad
}

func (t *Table) nodeInput(i int) float64 {
	p := t.pieces[i/2]
	return inverse(p.node + float64(i%2)/p.perUnit)
}

func TestNodeGivesThePreprocessedInput(t *testing.T) {
	var n Network
	InitHe().draw(&n, 3)
	table := Compile(&n)
	for i := range table.Values() {
		m, s := table.Node(i)
		wm, ws := Preprocess(table.nodeInput(i))
		require.InDelta(t, wm, m, 1e-9)
		require.InDelta(t, ws, s, 1e-9)
	}
}

// No hidden unit changes its sign inside a piece, so g is affine there.
func TestPiecesAreAffine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := drawNetwork(t)
		table := Compile(n)
		require.True(t, slices.IsSorted(table.ends))
		lo := -coordinateMax
		for _, p := range table.pieces {
			at := func(f float64) float64 {
				return n.evalPreprocessed(preprocessAt(lo +
					f*(p.hi-lo)))
			}
			a, b := at(0.01), at(0.99)
			for _, f := range []float64{0.2, 0.5, 0.8} {
				want := a + (b-a)*(f-0.01)/0.98
				require.InDelta(t, want, at(f), 1e-9*(1+math.Abs(a)+math.Abs(b)))
			}
			lo = p.hi
		}
		require.Equal(t, coordinateMax, lo)
	})
}

func TestDegenerateNetworksCompile(t *testing.T) {
	var zero, constant, huge Network
	constant[NetworkSize-1] = 3
	for i := range huge {
		huge[i] = float32(i%7-3) * 1e6
	}
	for _, n := range []*Network{&zero, &constant, &huge} {
		table := Compile(n)
		for _, x := range awkward() {
			requireAgreement(t, n, table, x)
		}
	}
	broken := constant
	broken[5] = float32(math.NaN())
	require.NotPanics(t, func() { Compile(&broken) })
}

func TestRecompilingLeavesNothingBehind(t *testing.T) {
	var a, b Network
	scales[3].draw(&a, 1)
	scales[0].draw(&b, 2)
	again := Compile(&a)
	again.Compile(&b)
	fresh := Compile(&b)
	require.Equal(t, fresh.pieces, again.pieces)
	require.Equal(t, fresh.values, again.values)
	require.Equal(t, fresh.start, again.start)
	require.Equal(t, fresh.grid, again.grid)
}
