package kernel

import "math"

// Constants of Log, which splits x = 2^n m with sqrt(1/2) <= m < sqrt(2). So
//
//	ln x = n ln 2 + ln m
//
// The assembly has the same constants.
const (
	logLeast = 1.1754943508222875e-38 // smallest positive normal float32
	logHalf  = 0x3f3504f3             // the bits of sqrt(1/2)
)

// logPoly are the coefficients, highest power first, of (ln(1+f) - f + f²/2)/f³. They are the
// minimax polynomial of the Cephes library for sqrt(1/2) <= 1+f < sqrt(2).
var logPoly = [...]float32{
	7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
	-1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
}

func logGo(dst, src []float32) {
	for i, v := range src {
		dst[i] = log(v)
	}
}

func log(x float32) float32 {
	switch {
	case x < 0 || x != x:
		return float32(math.NaN())
	case x < logLeast:
		return float32(math.Inf(-1))
	case x > math.MaxFloat32:
		return x
	}
	above := int32(math.Float32bits(x)) - logHalf
	n := float32(above >> 23)
	f := math.Float32frombits(uint32(above&0x7fffff+logHalf)) - 1
	y := logPoly[0]
	for _, c := range logPoly[1:] {
		y = float32(y*f) + c
	}
	f2 := float32(f * f)
	y = float32(float32(y*f) * f2)
	y += float32(n * ln2Lo)
	y -= float32(0.5 * f2)
	return (f + y) + float32(n*ln2Hi)
}
