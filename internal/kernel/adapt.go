package kernel

const (
	laneBits = 16 // of a random word decide about one element
	lanes    = 64 / laneBits

	// MaskLanes is how many elements share a word of random bits.
	MaskLanes = lanes

	// MaskAll is the threshold that writes every element.
	MaskAll = 1 << laneBits
)

// Adaptation rewrites a run of weights M, sparsely, from their gradient G:
//
//	I <- Gamma I + Beta1 G
//	x  = (I + Beta2 G) Scale
//	M <- Out f(x) where the mask is on
//
// All slices have the length of G. The products are not fused with the sums, so that
// the bits are the same on every machine.
type Adaptation struct {
	I, M, G                  []float32
	Scale                    []float32 // nil: 1
	Gamma, Beta1, Beta2, Out float32

	Grid   *Grid // f, between whose points it is linear
	Beyond interface {
		Beyond(x float32) float32 // f outside of the grid, and of NaN
	}

	X          []float32 // if not nil, gets x where the mask is on, 0 for NaN
	Prior, Sum []float32 // if not nil, Sum <- Prior + M; never the same

	Mask         []uint8 // on where it is not 0; nil: drawn as follows
	Key, Counter uint64  // element e is lane e%4, of 16 bits, of Bits(Key, Counter + e/4)
	Threshold    uint32  // on if its lane is below
}

// strip is how many elements go through the portable stages together. It is a
// multiple of lanes, and an index within it fits a byte.
const strip = 256

// Run does the run and returns how many elements it wrote.
func (a *Adaptation) Run() (written int) {
	n, written := a.vector()
	for lo := n; lo < len(a.G); lo += strip {
		written += a.portable(lo, min(lo+strip, len(a.G)))
	}
	return written
}

// portable does elements lo to hi, a strip or less.
func (a *Adaptation) portable(lo, hi int) int {
	var x [strip]float32
	var on [strip]uint8
	a.average(lo, hi)
	a.inputs(&x, lo, hi)
	list := on[:a.draw(&on, lo, hi)]
	a.write(&x, list, lo)
	a.trace(&x, list, lo)
	a.sum(lo, hi)
	return len(list)
}

// average moves I. The conversions keep the compiler from fusing products with sums.
func (a *Adaptation) average(lo, hi int) {
	avg, g := a.I[lo:hi], a.G[lo:hi]
	gamma, beta1 := a.Gamma, a.Beta1
	for e := range g {
		avg[e] = float32(gamma*avg[e]) + float32(beta1*g[e])
	}
}

// inputs computes x of elements lo to hi.
func (a *Adaptation) inputs(x *[strip]float32, lo, hi int) {
	avg, g := a.I[lo:hi], a.G[lo:hi]
	for e := range g {
		x[e] = avg[e] + float32(a.Beta2*g[e])
	}
	if a.Scale != nil {
		for e, f := range a.Scale[lo:hi] {
			x[e] *= f
		}
	}
}

// draw lists which of the elements lo to hi are on, counted from lo, and returns
// their number. It has no branch that could be mispredicted: every element is noted
// down, and the place for the next moves on if it stays.
func (a *Adaptation) draw(on *[strip]uint8, lo, hi int) (count int) {
	if a.Mask != nil {
		return given(on, a.Mask[lo:hi])
	}
	counter, n := a.Counter+uint64(lo)/lanes, hi-lo
	for e := 0; e < n; e += lanes {
		word := Bits(a.Key, counter)
		counter++
		for k := range min(lanes, n-e) {
			on[uint8(count)] = uint8(e + k)
			count += int((uint32(word&(1<<laneBits-1)) - a.Threshold) >> 31)
			word >>= laneBits
		}
	}
	return count
}

// given is draw with a given mask.
func given(on *[strip]uint8, mask []uint8) (count int) {
	for e, b := range mask {
		if b != 0 {
			on[count] = uint8(e)
			count++
		}
	}
	return count
}

// write replaces the listed elements of M, counted from lo.
func (a *Adaptation) write(x *[strip]float32, on []uint8, lo int) {
	m, grid := a.M[lo:], a.Grid
	for _, e := range on {
		i, w, ok := Locate(x[e])
		if !ok {
			m[e] = a.Out * a.Beyond.Beyond(x[e])
			continue
		}
		v := grid[i]
		m[e] = a.Out * (v + float32(w*(grid[i+1]-v)))
	}
}

// trace keeps the listed elements' x.
func (a *Adaptation) trace(x *[strip]float32, on []uint8, lo int) {
	if a.X == nil {
		return
	}
	trace := a.X[lo:]
	for _, e := range on {
		v := x[e]
		if v != v {
			v = 0 // in X, NaN means "never written"
		}
		trace[e] = v
	}
}

func (a *Adaptation) sum(lo, hi int) {
	if a.Sum == nil {
		return
	}
	sum, prior := a.Sum[lo:hi], a.Prior[lo:hi]
	for e, m := range a.M[lo:hi] {
		sum[e] = prior[e] + m
	}
}
