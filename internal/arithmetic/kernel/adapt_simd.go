package kernel

import "math/bits"

//go:generate sh -c "cd _generate && go run . adapt -out ../adapt_amd64.s -stubs ../adapt_amd64.go -pkg kernel"

const (
	// adaptStrip and adaptStrip512 are the numbers of elements that the AVX2 and the AVX-512
	// functions process together. Both are at most the constant strip.
	adaptStrip    = 128
	adaptStrip512 = 256

	// adaptRun is the maximum number of elements in a call of the assembly. The limit exists
	// because a call returns one bit per strip in a 64-bit word.
	adaptRun = 64 * adaptStrip
)

// adapt processes the first n elements. It returns n and the number of elements written.
func (v Vectors) adapt(a *Adaptation) (n, written int) {
	if v.set < AVX2 || a.Mask != nil || a.Threshold == 0 {
		return 0, 0
	}
	together, length := 16, adaptStrip
	if v.set >= AVX512 {
		together, length = 32, adaptStrip512
	}
	n = len(a.G) / together * together
	for lo := 0; lo < n; lo += adaptRun {
		hi := min(lo+adaptRun, n)
		count, outside := v.run(a, lo, hi)
		written += count
		for ; outside != 0; outside &= outside - 1 {
			from := lo + bits.TrailingZeros64(outside)*length
			a.beyond(from, min(from+length, hi))
		}
	}
	return n, written
}

func (v Vectors) run(a *Adaptation, lo, hi int) (written int, outside uint64) {
	n, g, scale, x, grid := hi-lo, &a.G[lo], part(a.Scale, lo), part(a.X, lo), &a.Grid[0]
	state := a.Key + (a.Counter+uint64(lo)/lanes+1)*golden
	last := uint64(a.Threshold - 1)
	if a.I.BF16 != nil {
		i, m := &a.I.BF16[lo], &a.M.BF16[lo]
		if v.set >= AVX512 {
			return adaptBF16AVX512(i, m, g, scale, x, grid, n, a.Gamma, a.Beta1, a.Beta2, a.Out,
				state, last)
		}
		return adaptBF16AVX2(i, m, g, scale, x, grid, n, a.Gamma, a.Beta1, a.Beta2, a.Out, state,
			last)
	}
	i, m := &a.I.F32[lo], &a.M.F32[lo]
	if v.set >= AVX512 {
		return adaptAVX512(i, m, g, scale, x, grid, n, a.Gamma, a.Beta1, a.Beta2, a.Out, state,
			last)
	}
	return adaptAVX2(i, m, g, scale, x, grid, n, a.Gamma, a.Beta1, a.Beta2, a.Out, state, last)
}

func part(s []float32, lo int) *float32 {
	if s == nil {
		return nil
	}
	return &s[lo]
}

// beyond recomputes M where x is outside the grid, for elements lo to hi-1. These are at most
// `strip` elements.
func (a *Adaptation) beyond(lo, hi int) {
	var x [strip]float32
	var lane [strip]uint16
	var on, out [strip]uint8
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
