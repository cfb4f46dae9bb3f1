package sparsemeta

import "github.com/lmserve/lmserve/internal/kernel"

const (
	laneBits = 16 // of a random word decide about one element
	lanes    = 64 / laneBits
)

// run is the update of one bank over a run of elements of one branch: all that the
// inner loops need, and what a fused vector kernel would be handed in their place.
type run struct {
	table                    *Table
	i, m, g                  []float32
	scale                    []float32 // nil = 1
	x                        []float32 // nil unless traced
	gamma, beta1, beta2, out float32

	mask         []uint8 // nil: the mask is that of key
	key, counter uint64  // element e is lane e%4 of Bits(key, counter + e/4)
	threshold    uint32  // written if its lane is below
}

// strip is how many elements go through the stages of update together. It is a
// multiple of lanes, and an index within it fits a byte.
const strip = 256

// update does the run and returns how many elements it wrote.
func (r *run) update() (written int) {
	var x [strip]float32 // inputs of g
	var on [strip]uint8  // the elements to write
	for lo := 0; lo < len(r.g); lo += strip {
		n := min(strip, len(r.g)-lo)
		r.average(x[:n], lo)
		count := 0
		if r.mask == nil {
			count = r.draw(&on, lo, n)
		} else {
			count = given(&on, r.mask[lo:lo+n])
		}
		r.write(&x, on[:count], lo)
		written += count
	}
	return written
}

// average moves I (eq. 3) and computes the inputs of g from element lo on. The
// conversions keep the compiler from fusing products with sums.
func (r *run) average(x []float32, lo int) {
	avg, g := r.i[lo:lo+len(x)], r.g[lo:lo+len(x)]
	gamma, beta1, beta2 := r.gamma, r.beta1, r.beta2
	for e := range x {
		i := float32(gamma*avg[e]) + float32(beta1*g[e])
		avg[e] = i
		x[e] = i + float32(beta2*g[e])
	}
	if r.scale != nil {
		for e, f := range r.scale[lo : lo+len(x)] {
			x[e] *= f
		}
	}
}

// draw lists which of the n elements from lo on the random mask writes (eq. 5) and
// returns their number. It has no branch that could be mispredicted: every element
// is noted down, and the place for the next moves on if it stays.
func (r *run) draw(on *[strip]uint8, lo, n int) (count int) {
	counter := r.counter + uint64(lo)/lanes
	for e := 0; e < n; e += lanes {
		word := kernel.Bits(r.key, counter)
		counter++
		for k := range min(lanes, n-e) {
			on[uint8(count)] = uint8(e + k)
			count += int((uint32(word&(1<<laneBits-1)) - r.threshold) >> 31)
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

// write replaces the listed elements of M, counted from lo (eq. 6).
func (r *run) write(x *[strip]float32, on []uint8, lo int) {
	m, out, t := r.m[lo:], r.out, r.table
	for _, e := range on {
		i, w, ok := locate(x[e]) // Table.At, which is too large for the compiler to put here
		if !ok {
			m[e] = out * t.beyond(x[e])
			continue
		}
		v := t.grid[i]
		m[e] = out * (v + float32(w*(t.grid[i+1]-v)))
	}
	if r.x == nil {
		return
	}
	trace := r.x[lo:]
	for _, e := range on {
		v := x[e]
		if v != v {
			v = 0 // in X, NaN means "never written"; g takes it for 0
		}
		trace[e] = v
	}
}
