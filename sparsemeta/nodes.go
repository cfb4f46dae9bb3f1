package sparsemeta

import (
	"math"
	"slices"
)

const beyondFloat32 = 1 << 128

// coordinate returns u(x), a coordinate in which the preprocessing is piecewise affine. u is e^7 x
// if |x| <= e^-7, else sign(x) (1 + ln(e^7 |x|)). u is continuous and increasing. NaN counts as 0.
func coordinate(x float64) float64 {
	if math.IsNaN(x) {
		return 0
	}
	y := expP * min(math.Abs(x), beyondFloat32)
	if y > 1 {
		y = 1 + math.Log(y)
	}
	return math.Copysign(y, x)
}

var coordinateMax = coordinate(beyondFloat32)

// stretch is an interval of u (see coordinate) on which the preprocessing is affine: magnitude = m0
// + m1 u, sign = s0 + s1 u.
type stretch struct{ lo, hi, m0, m1, s0, s1 float64 }

var stretches = [3]stretch{
	{lo: -coordinateMax, hi: -1, m0: -1 - 1./preprocessP, m1: -1. / preprocessP, s0: -1},
	{lo: -1, hi: 1, m0: -1, s1: 1},
	{lo: 1, hi: coordinateMax, m0: -1 - 1./preprocessP, m1: 1. / preprocessP, s0: 1},
}

// preprocessAt returns Preprocess(x) for the x with coordinate(x) = u.
func preprocessAt(u float64) (magnitude, sign float64) {
	s := &stretches[1]
	if u < -1 {
		s = &stretches[0]
	} else if u > 1 {
		s = &stretches[2]
	}
	return s.m0 + float64(s.m1*u), s.s0 + float64(s.s1*u)
}

// pieceMin is the minimum length of an affine piece in u. Shorter pieces are merged with a
// neighbor: they have no space for two nodes, and few inputs lie in them.
const pieceMin = 1e-6

// knots returns the ends of g's affine pieces in u, in ascending order from -coordinateMax to
// coordinateMax. Pieces end where the preprocessing bends and where a hidden unit changes its sign.
// The result reuses the memory of parameter ends.
func (n *Network) knots(ends []float64) []float64 {
	ends = append(ends[:0], -coordinateMax)
	for i := range stretches {
		s := &stretches[i]
		from := len(ends)
		ends = n.firstLayerKnots(s, ends)
		slices.Sort(ends[from:])
		to, lo := len(ends), s.lo
		for k := from; k <= to; k++ {
			hi := s.hi
			if k < to {
				hi = ends[k]
			}
			ends = n.secondLayerKnots(s, lo, hi, ends)
			lo = hi
		}
		ends = append(ends, s.hi)
	}
	slices.Sort(ends)
	return spaced(ends)
}

// firstUnit returns a and b, where a + b u is the input to the nonlinearity of first-layer unit i
// on stretch s.
func (n *Network) firstUnit(s *stretch, i int) (a, b float64) {
	w1 := n.w1()
	m, g := float64(w1[2*i]), float64(w1[2*i+1])
	a = float64(m*s.m0) + float64(g*s.s0) + float64(n.b1()[i])
	return a, float64(m*s.m1) + float64(g*s.s1)
}

func (n *Network) firstLayerKnots(s *stretch, ends []float64) []float64 {
	for i := range hidden {
		a, b := n.firstUnit(s, i)
		ends = appendRoot(ends, a, b, s.lo, s.hi)
	}
	return ends
}

// secondLayerKnots appends the sign changes of second-layer units between lo and hi to ends. No
// first-layer unit changes its sign between lo and hi, so the second-layer units are affine there.
func (n *Network) secondLayerKnots(s *stretch, lo, hi float64, ends []float64) []float64 {
	if hi-lo < pieceMin {
		return ends
	}
	var a1, b1 [hidden]float64
	for i := range hidden {
		a, b := n.firstUnit(s, i)
		slope := 1.
		if a+float64(b*(lo+hi)/2) <= 0 {
			slope = LeakySlope
		}
		a1[i], b1[i] = slope*a, slope*b
	}
	w2, b2 := n.w2(), n.b2()
	for j := range hidden {
		a, b := float64(b2[j]), 0.
		for i, w := range w2[hidden*j : hidden*(j+1)] {
			a += float64(float64(w) * a1[i])
			b += float64(float64(w) * b1[i])
		}
		ends = appendRoot(ends, a, b, lo, hi)
	}
	return ends
}

func appendRoot(ends []float64, a, b, lo, hi float64) []float64 {
	if root := -a / b; root > lo && root < hi {
		ends = append(ends, root)
	}
	return ends
}

// spaced removes ends of pieces that are less than pieceMin apart. It keeps the first and the last
// element.
func spaced(ends []float64) []float64 {
	last := ends[len(ends)-1]
	kept := ends[:1]
	for _, u := range ends[1:] {
		if u-kept[len(kept)-1] >= pieceMin && last-u >= pieceMin {
			kept = append(kept, u)
		}
	}
	return append(kept, last)
}
