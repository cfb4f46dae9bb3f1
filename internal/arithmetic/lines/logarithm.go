package lines

import "math"

// lg is the base-2 logarithm of a positive number, interpolated linearly between powers of two: it
// is read off the bits of a float64, so that every machine computes the same.
func lg(x float64) float64 {
	bits := int64(math.Float64bits(x)) - int64(math.Float64bits(1))
	return float64(float64(bits) / (1 << 52)) // which the compiler makes a product
}

// exp is the inverse of lg, of a number from -1000 to 1000.
func exp(x float64) float64 {
	return math.Float64frombits(uint64(int64(float64(x*(1<<52))) + int64(math.Float64bits(1))))
}

// bitsOf is how surprising something of a probability is, in bits.
func bitsOf(p float64) float64 { return -lg(p) }
