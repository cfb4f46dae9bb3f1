package weights

import "math"

// These are the bits of float32 numbers at the borders of half precision.
const (
	f32Infinity = 0x7f800000
	// 65520: the middle between the largest half-precision number and 2^16
	halfOverflow  = 0x477ff000
	halfNormalMin = 0x38800000 // 2^-14
)

// float16Bits converts to half precision and rounds to nearest, ties to even. A NaN remains a NaN
// and keeps the upper bits of its payload.
func float16Bits(f float32) uint16 {
	bits := math.Float32bits(f)
	sign := uint16(bits>>16) & 0x8000
	abs := bits &^ (1 << 31)
	switch {
	case abs > f32Infinity:
		return sign | 0x7c00 | nanPayload(uint16(abs>>13)&0x03ff, 0x0200)
	case abs >= halfOverflow:
		return sign | 0x7c00
	case abs >= halfNormalMin:
		// For normal numbers, the exponents of the two formats differ only in the bias, 127 or 15.
		// A carry out of the mantissa correctly increments the exponent.
		return sign | uint16(roundOff(abs-(127-15)<<23, 13))
	}
	// The result is subnormal: a multiple of 2^-24. This is also the last place of a float32 in
	// [0.5, 1), so adding 0.5 rounds there.
	sum := math.Float32frombits(abs) + 0.5
	return sign | uint16(math.Float32bits(sum)-math.Float32bits(0.5))
}

func float16Value(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	abs := uint32(h & 0x7fff)
	switch {
	case abs >= 0x7c00: // infinity or NaN
		return math.Float32frombits(sign | f32Infinity | (abs&0x03ff)<<13)
	case abs >= 0x0400:
		return math.Float32frombits(sign | (abs<<13 + (127-15)<<23))
	}
	const lastPlace = 1.0 / (1 << 24)
	return math.Float32frombits(sign | math.Float32bits(float32(abs)*lastPlace))
}

// bfloat16Bits converts to bfloat16, the upper half of a float32, and rounds to nearest, ties to
// even.
func bfloat16Bits(f float32) uint16 {
	bits := math.Float32bits(f)
	if bits&^(1<<31) > f32Infinity {
		top := uint16(bits >> 16)
		return top&0xff80 | nanPayload(top&0x007f, 0x0040)
	}
	return uint16(roundOff(bits, 16))
}

func bfloat16Value(b uint16) float32 { return math.Float32frombits(uint32(b) << 16) }

// roundOff drops the n lowest bits, rounding to nearest, ties to even.
func roundOff(bits uint32, n uint) uint32 {
	odd := bits >> n & 1
	return (bits + 1<<(n-1) - 1 + odd) >> n
}

// nanPayload returns the payload of a NaN. If the payload is zero, which would mean infinity, it
// returns quiet.
func nanPayload(payload, quiet uint16) uint16 {
	if payload == 0 {
		return quiet
	}
	return payload
}
