package lines

import "math"

// lg returns the base-2 logarithm of a positive number, interpolated linearly between powers of
// two. It reads the bits of a float64, so results are bit-identical on every machine.
func lg(x float64) float64 {
	bits := int64(math.Float64bits(x)) - int64(math.Float64bits(1))
	return float64(float64(bits) / (1 << 52))
}

// exp is the inverse of lg. It returns about 2^x, for x from -1000 to 1000.
func exp(x float64) float64 {
	return math.Float64frombits(uint64(int64(float64(x*(1<<52))) + int64(math.Float64bits(1))))
}

// bitsOf returns the surprise, in bits, of an event of probability p.
func bitsOf(p float64) float64 { return -lg(p) }
