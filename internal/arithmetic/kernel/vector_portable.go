package kernel

import "math"

// Constants of Exp: e^x = 2^n e^r with n = round(x log2 e) and r = x - n ln 2. Subtracting n ln 2
// in two parts makes the rounding error of r negligible. The assembly has the same constants.
const (
	expMost  = 89 // e^x overflows for larger x
	expLeast = -87
	expFloor = -88         // lower bound of x in the computation, to keep n in range
	expRound = 12582912    // 1.5 * 2^23: the lowest bits of expRound + x are round(x)
	log2e    = 1.44269504  //
	ln2Hi    = 0.693359375 // has only 9 bits, so that n*ln2Hi is exact
	ln2Lo    = -2.12194440e-4
)

// expPoly are the coefficients, highest power first, of (e^r - 1 - r)/r². They are the minimax
// polynomial of the Cephes library for |r| <= ln(2)/2.
var expPoly = [...]float32{
	1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3,
	4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1,
}

func expSumGo(dst, src []float32, scale, shift float32, lanes *[8]float32) {
	for i, v := range src {
		y := exp(float32(scale*v) - shift)
		dst[i] = y
		lanes[i%8] += y
	}
}

func exp(x float32) float32 { return expOf(x, 0) }

// expOf returns e^(x+low). low is a correction smaller than the last bit of x, and small compared
// with ln 2.
func expOf(x, low float32) float32 {
	if x > expMost {
		x = expMost
	}
	if x < expFloor {
		x = expFloor
	}
	t := float32(x*log2e) + expRound
	n := t - expRound
	r := x - float32(n*ln2Hi)
	r -= float32(n * ln2Lo)
	r += low
	// Evaluating the polynomial in pairs of terms halves the number of dependent operations.
	r2 := float32(r * r)
	a := float32(expPoly[0]*r) + expPoly[1]
	b := float32(expPoly[2]*r) + expPoly[3]
	c := float32(expPoly[4]*r) + expPoly[5]
	y := float32((float32(a*r2)+b)*r2) + c
	y = float32(y*r2) + r
	y++
	// pow is 2^n. It is +Inf for n = 128.
	pow := math.Float32frombits(math.Float32bits(t)<<23 + math.Float32bits(1))
	if x < expLeast {
		return 0
	}
	return y * pow
}

// Constants of GELU. The assembly has the same constants.
const (
	normalMost = 16         // e^(-normalMost²/2) is 0 in float32
	normalHead = 0xFFFFF000 // mask for 12 bits of a significand, so that their square is exact
	invSqrt2Pi = 0.398942280401432677939946
)

// millsAbove and millsBelow are the coefficients, highest power first, of the numerator and the
// denominator of a rational function. The function approximates e^(a²/2) Phi(-a) for 0 <= a <= 14
// with a relative error of 6e-9. It was fitted by weighted least squares. No coefficient is
// negative, which limits rounding errors to about the last bit.
var (
	millsAbove = [...]float32{
		4.06442414566e-3, 4.02903160367e-2, 0.182227921664, 0.436950925651, 0.5,
	}
	millsBelow = [...]float32{
		1.01878706222e-2, 0.100999708932, 0.466808651479, 1.19834447691, 1.67178676819, 1,
	}
)

// normalAt returns the standard normal distribution function Phi(x) and its density at x.
func normalAt(x float32) (below, density float32) {
	a := math.Float32frombits(math.Float32bits(x) &^ (1 << 31))
	if a > normalMost {
		a = normalMost
	}
	head := math.Float32frombits(math.Float32bits(a) & normalHead)
	e := expOf(float32(head*head)*-0.5, float32((a-head)*(a+head))*-0.5)
	above, under := millsAbove[0], millsBelow[0]
	for _, c := range millsAbove[1:] {
		above = float32(above*a) + c
	}
	for _, c := range millsBelow[1:] {
		under = float32(under*a) + c
	}
	below = float32(e * (above / under))
	if x > 0 {
		below = 1 - below
	}
	return below, e * invSqrt2Pi
}

func geluGo(dst, x []float32) {
	for i, v := range x {
		below, _ := normalAt(v)
		dst[i] = v * below
	}
}

func geluBackwardGo(dst, d, x []float32) {
	for i, v := range x {
		below, density := normalAt(v)
		dst[i] = d[i] * (below + float32(v*density))
	}
}

func raiseGo(x []float32, lanes *[8]float32) {
	for i, v := range x {
		if v > lanes[i%8] {
			lanes[i%8] = v
		}
	}
}

func dotGo(a, b []float32, lanes *[8]float32) {
	for i, v := range a {
		lanes[i%8] += float32(v * b[i])
	}
}

func axpyGo(y, x []float32, a float32) {
	for i, v := range x {
		y[i] += float32(a * v)
	}
}

func scaleRowGo(x []float32, a float32) {
	for i := range x {
		x[i] *= a
	}
}

func addGo(dst, a, b []float32) {
	for i, v := range a {
		dst[i] = v + b[i]
	}
}

func reluGo(dst, x []float32) {
	for i, v := range x {
		if v < 0 {
			v = 0
		}
		dst[i] = v
	}
}

func reluBackwardGo(dst, d, x []float32) {
	for i, v := range d {
		if !(x[i] > 0) {
			v = 0
		}
		dst[i] = v
	}
}

func softmaxBackwardGo(d, prob []float32, dot, scale float32) {
	for i, v := range d {
		d[i] = float32(prob[i]*(v-dot)) * scale
	}
}

func sumGo(x []float32, lanes *[8]float64) {
	for i, v := range x {
		lanes[i%8] += float64(v)
	}
}

func squaresGo(x []float32, mean float64, lanes *[8]float64) {
	for i, v := range x {
		d := float64(v) - mean
		lanes[i%8] += float64(d * d)
	}
}

func normalizeGo(y, x, gain, bias []float32, mean, rstd float32) {
	for i, v := range x {
		y[i] = float32((v-mean)*rstd*gain[i]) + bias[i]
	}
}

// normDotsGo adds gain*dy to the first eight lanes and gain*dy*xhat to the other eight, where xhat
// is the normalized x.
func normDotsGo(dy, x, gain []float32, mean, rstd float32, lanes *[16]float64) {
	for i, d := range dy {
		g := float64(float32(d * gain[i]))
		lanes[i%8] += g
		lanes[8+i%8] += float64(g * float64(float32((x[i]-mean)*rstd)))
	}
}

// normBackwardGo sets dx = rstd (gain dy - meanG - xhat meanGX), where xhat is the normalized x.
func normBackwardGo(dx, dy, x, gain []float32, mean, rstd, meanG, meanGX float32) {
	for i, d := range dy {
		xhat := float32((x[i] - mean) * rstd)
		dx[i] = rstd * (float32(d*gain[i]) - meanG - float32(xhat*meanGX))
	}
}

func normGainGo(dgain, dy, x []float32, mean, rstd float32) {
	for i, d := range dy {
		dgain[i] += float32(float32((x[i]-mean)*rstd) * d)
	}
}
