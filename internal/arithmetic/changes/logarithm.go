package changes

import "math"

// lg returns the base-2 logarithm of a positive normal number with an error below .01. It reads
// the exponent e and the fraction f from the bits of x, so that all machines compute equal
// results:
//
//	lg(2^e (1 + f)) = e + f + .344 f (1 - f)
func lg(x float64) float64 {
	const mantissaBits = 52
	bits := math.Float64bits(x)
	exponent := float64(int64(bits>>mantissaBits) - 1023)
	f := float64(float64(bits&(1<<mantissaBits-1)) / (1 << mantissaBits))
	return exponent + f + float64(.344*f*(1-f))
}

func ln(x float64) float64 { return lg(x) * math.Ln2 }

// pow2 returns 2^x with an error below .4 %, for x in -60..60:
//
//	2^(e + f) = 2^e (1 + .6565 f + .3435 f^2)
func pow2(x float64) float64 {
	e := math.Floor(x)
	f := x - e
	return math.Ldexp(1+float64(f*(.6565+float64(.3435*f))), int(e))
}
