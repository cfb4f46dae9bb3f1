//go:build amd64 && !noasm

package kernel

import "unsafe"

//go:generate sh -c "cd _generate && go run . adapt -out ../adapt_amd64.s -stubs ../adapt_amd64.go -pkg kernel"

// adapt does the first n elements, and counts the written ones.
func (v Vectors) adapt(a *Adaptation) (n, written int) {
	n = len(a.G) &^ 15
	if v.set < AVX2 || n == 0 || a.Mask != nil || a.Threshold == 0 {
		return 0, 0
	}
	g, scale, x := unsafe.SliceData(a.G), unsafe.SliceData(a.Scale), unsafe.SliceData(a.X)
	state, last := a.Key+(a.Counter+1)*golden, uint64(a.Threshold-1)
	var most uint32
	if a.I.BF16 != nil {
		written, most = adaptBF16AVX2(&a.I.BF16[0], &a.M.BF16[0], g, scale, x, &a.Grid[0], n, a.Gamma, a.Beta1, a.Beta2, a.Out, state, last)
	} else {
		written, most = adaptAVX2(&a.I.F32[0], &a.M.F32[0], g, scale, x, &a.Grid[0], n, a.Gamma, a.Beta1, a.Beta2, a.Out, state, last)
	}
	if most >= gridEnd {
		a.beyond(n)
	}
	return n, written
}

// beyond puts M of the first n elements right where x is outside the grid, which is rare.
func (a *Adaptation) beyond(n int) {
	var x [strip]float32
	var lane [strip]uint16
	var on, out [strip]uint8
	for lo := 0; lo < n; lo += strip {
		hi := min(lo+strip, n)
		a.draw(&lane, lo, hi)
		a.inputs(&x, lo, hi)
		outside := 0
		for _, e := range on[:a.choose(&on, &lane, lo, hi)] {
			if _, _, ok := Locate(x[e]); !ok {
				out[outside] = e
				outside++
			}
		}
		a.write(&x, out[:outside], lo)
	}
}
