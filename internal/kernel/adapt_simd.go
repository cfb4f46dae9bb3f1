//go:build amd64 && !noasm

package kernel

import "unsafe"

//go:generate sh -c "cd _generate && go run . adapt -out ../adapt_amd64.s -stubs ../adapt_amd64.go -pkg kernel"

// vector does the first n elements, and counts the written ones.
func (a *Adaptation) vector() (n, written int) {
	n = len(a.G) &^ 15
	if !simd || n == 0 || a.Mask != nil || a.Threshold == 0 {
		return 0, 0
	}
	written, most := adaptAVX2(unsafe.SliceData(a.I), unsafe.SliceData(a.M), unsafe.SliceData(a.G), unsafe.SliceData(a.Scale),
		unsafe.SliceData(a.X), unsafe.SliceData(a.Prior), unsafe.SliceData(a.Sum), &a.Grid[0], n,
		a.Gamma, a.Beta1, a.Beta2, a.Out, a.Key+(a.Counter+1)*golden, uint64(a.Threshold-1))
	if most >= gridEnd {
		a.beyond(n)
	}
	return n, written
}

// beyond puts M and Sum of the first n elements right where x is outside the grid,
// which is rare.
func (a *Adaptation) beyond(n int) {
	var x [strip]float32
	var on [strip]uint8
	for lo := 0; lo < n; lo += strip {
		hi := min(lo+strip, n)
		a.inputs(&x, lo, hi)
		for _, e := range on[:a.draw(&on, lo, hi)] {
			at := lo + int(e)
			if _, _, ok := Locate(x[e]); ok {
				continue
			}
			m := a.Out * a.Beyond.Beyond(x[e])
			if a.Sum != nil {
				a.Sum[at] = a.Prior[at] + m
			}
			a.M[at] = m
		}
	}
}
