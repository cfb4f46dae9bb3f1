package kernel

const (
	laneBits = 16
	lanes    = 64 / laneBits

	// MaskLanes is the number of elements that use one word of random bits.
	MaskLanes = lanes

	// MaskAll is a Threshold that selects every element.
	MaskAll = 1 << laneBits
)

// roundLane is the factor that turns an element's random lane into the random number for rounding
// the element's average. Since the factor is odd, it permutes the lanes. The golden ratio spreads
// evenly both the lanes below a threshold and the lanes above it. So the rounding of an average
// does not depend on whether the mask selects the element.
const roundLane = golden >> (64 - laneBits)

// Adaptation updates a run of fast weights M sparsely, from their gradient G and its average I:
//
//	I <- Gamma I + Beta1 G
//	x  = (I + Beta2 G) Scale
//	M <- Out f(x) where the mask is on
//
// All arrays have the length of G. Products are not fused with sums, so that the bits are the
// same on every machine.
//
// I and M are both in float32 or both in bfloat16. In bfloat16, M is rounded to nearest, ties to
// even. I is rounded at random to one of its two neighbors, before x is computed. With Gamma near
// 1, an update changes most elements of I by less than half a unit of the last place. Rounding to
// nearest would never change them.
type Adaptation struct {
	I, M                     Array
	G                        []float32
	Scale                    []float32 // nil means that every scale is 1
	Gamma, Beta1, Beta2, Out float32

	Grid   *Grid // values of f at grid points, linearly interpolated
	Beyond interface {
		Beyond(x float32) float32 // returns f(x) for x outside the grid, and for NaN
	}

	X []float32 // if not nil, receives x of the selected elements, with NaN replaced by 0

	Mask []uint8 // selects an element by a nonzero byte; if nil, the mask is random
	// The lane of element e is the e%4-th group of 16 bits in Bits(Key, Counter+e/4).
	Key, Counter uint64
	Threshold    uint32 // the random mask selects an element if its lane is below Threshold
}

// strip is the number of elements that the portable code processes together. It is a multiple of
// lanes, and an index below strip fits in a byte.
const strip = 256

// portable processes elements lo to hi-1, at most strip elements.
func (a *Adaptation) portable(lo, hi int) int {
	var x [strip]float32
	var lane [strip]uint16
	var on [strip]uint8
	a.draw(&lane, lo, hi)
	a.average(&x, &lane, lo, hi)
	a.inputs(&x, lo, hi)
	list := on[:a.choose(&on, &lane, lo, hi)]
	a.trace(&x, list, lo)
	a.write(&x, list, lo)
	return len(list)
}

func (a *Adaptation) draw(lane *[strip]uint16, lo, hi int) {
	counter := a.Counter + uint64(lo)/lanes
	for e := 0; e < hi-lo; e += lanes {
		word := Bits(a.Key, counter)
		counter++
		for k := range lanes {
			lane[e+k] = uint16(word >> (k * laneBits))
		}
	}
}

// average updates the gradient averages of elements lo to hi-1. If they are in bfloat16, average
// uses x as scratch memory. The explicit conversions prevent the compiler from fusing products with
// sums.
func (a *Adaptation) average(x *[strip]float32, lane *[strip]uint16, lo, hi int) {
	g, avg := a.G[lo:hi], a.I.F32
	if avg != nil {
		avg = avg[lo:hi]
	} else {
		avg = x[:hi-lo]
		a.I.Range(lo, hi).load(avg)
	}
	gamma, beta1 := a.Gamma, a.Beta1
	for e := range g {
		avg[e] = float32(gamma*avg[e]) + float32(beta1*g[e])
	}
	if half := a.I.BF16; half != nil {
		half = half[lo:hi]
		for e, v := range avg {
			half[e] = drawBF16(v, roundLane*lane[e])
		}
	}
}

// inputs computes x for elements lo to hi-1 from the updated gradient averages.
func (a *Adaptation) inputs(x *[strip]float32, lo, hi int) {
	a.I.Range(lo, hi).load(x[:hi-lo])
	for e, g := range a.G[lo:hi] {
		x[e] += float32(a.Beta2 * g)
	}
	if a.Scale != nil {
		for e, f := range a.Scale[lo:hi] {
			x[e] *= f
		}
	}
}

// choose writes the indexes of the selected elements, relative to lo, to the array `on`, and
// returns their number. A branch per element could be mispredicted. So choose writes every index,
// but advances only if the mask selects the element.
func (a *Adaptation) choose(on *[strip]uint8, lane *[strip]uint16, lo, hi int) (count int) {
	if a.Mask != nil {
		return given(on, a.Mask[lo:hi])
	}
	for e, l := range lane[:hi-lo] {
		on[uint8(count)] = uint8(e)
		count += int((uint32(l) - a.Threshold) >> 31)
	}
	return count
}

func given(on *[strip]uint8, mask []uint8) (count int) {
	for e, b := range mask {
		if b != 0 {
			on[count] = uint8(e)
			count++
		}
	}
	return count
}

// trace copies elements of x to the array X, unless X is nil. The parameter `on` lists the indexes
// of the elements to copy.
func (a *Adaptation) trace(x *[strip]float32, on []uint8, lo int) {
	if a.X == nil {
		return
	}
	trace := a.X[lo:]
	for _, e := range on {
		v := x[e]
		if v != v {
			v = 0 // since NaN in X marks an element that was never written
		}
		trace[e] = v
	}
}

// write sets M to Out f(x) at the indexes in `on`, relative to lo. It overwrites x.
func (a *Adaptation) write(x *[strip]float32, on []uint8, lo int) {
	grid := a.Grid
	for _, e := range on {
		i, w, ok := Locate(x[e])
		if !ok {
			x[e] = a.Out * a.Beyond.Beyond(x[e])
			continue
		}
		v := grid[i]
		x[e] = a.Out * (v + float32(w*(grid[i+1]-v)))
	}
	if half := a.M.BF16; half != nil {
		half = half[lo:]
		for _, e := range on {
			half[e] = uint16(roundBF16(x[e]))
		}
		return
	}
	m := a.M.F32[lo:]
	for _, e := range on {
		m[e] = x[e]
	}
}
