package kernel

import "math"

// The roundings of bfloat16, and the additions that treat subnormal numbers as zero.

func widenBF16(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// roundBF16 returns the bits of x rounded to bfloat16, with NaN made quiet.
func roundBF16(x float32) uint32 {
	b := math.Float32bits(x)
	if x != x {
		return b>>16 | 0x40
	}
	return (b + 0x7fff + b>>16&1) >> 16
}

// drawBF16 rounds x to one of its two neighbors in bfloat16: away from zero if the sum of the lost
// 16 bits and r overflows 16 bits. If r is uniform, the mean of the result is x. NaN is made quiet.
func drawBF16(x float32, r uint16) uint16 {
	b := math.Float32bits(x)
	if x != x {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + uint32(r)) >> 16)
}

// fmaFlushed returns a*b+c for a and b of 8 bits each, rounded once. The product has 16 bits, so
// float64 usually holds the sum exactly. It does not if one summand is far smaller than the other's
// last bit in float32. Then rounding twice gives the same as rounding once.
func fmaFlushed(a, b, c float32) float32 {
	// Numbers below tiny round to less than the smallest normal float32.
	const tiny = 0x1p-126 - 0x1p-151
	sum := float64(float64(flush(a))*float64(flush(b))) + float64(c)
	if math.Abs(sum) < tiny {
		return float32(math.Copysign(0, sum))
	}
	return float32(sum)
}

// addFlushed returns a+b, with subnormal inputs and results replaced by zero.
func addFlushed(a, b float32) float32 { return flush(flush(a) + flush(b)) }

// flush returns x, or a zero with the sign of x if x is subnormal.
func flush(x float32) float32 {
	if b := math.Float32bits(x); b&(0xff<<23) == 0 {
		return math.Float32frombits(b & (1 << 31))
	}
	return x
}
