package kernel

import "math"

// This file has functions that round to bfloat16, and float32 arithmetic that treats subnormal
// numbers as zero.

func widenBF16(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// roundBF16 returns the bits of x rounded to bfloat16. A NaN becomes a quiet NaN.
func roundBF16(x float32) uint32 {
	b := math.Float32bits(x)
	if x != x {
		return b>>16 | 0x40
	}
	return (b + 0x7fff + b>>16&1) >> 16
}

// drawBF16 rounds x to one of its two bfloat16 neighbors. It rounds away from zero if r plus the
// lower 16 bits of x overflows 16 bits. If r is uniform, the mean of the result is x. A NaN becomes
// a quiet NaN.
func drawBF16(x float32, r uint16) uint16 {
	b := math.Float32bits(x)
	if x != x {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + uint32(r)) >> 16)
}

// fmaFlushed returns a*b+c, rounded once, with subnormal numbers replaced by zero. a and b must
// have significands of 8 bits. The product has 16 bits, so the sum in float64 is usually exact. It
// is inexact only if one summand is far below the last float32 bit of the other summand. Then
// rounding twice gives the same result as rounding once.
func fmaFlushed(a, b, c float32) float32 {
	// tiny is the bound below which numbers round to less than the smallest normal float32.
	const tiny = 0x1p-126 - 0x1p-151
	sum := float64(float64(flush(a))*float64(flush(b))) + float64(c)
	if math.Abs(sum) < tiny {
		return float32(math.Copysign(0, sum))
	}
	return float32(sum)
}

func addFlushed(a, b float32) float32 { return flush(flush(a) + flush(b)) }

// flush returns x, or a zero with the sign of x if x is subnormal.
func flush(x float32) float32 {
	if b := math.Float32bits(x); b&(0xff<<23) == 0 {
		return math.Float32frombits(b & (1 << 31))
	}
	return x
}
