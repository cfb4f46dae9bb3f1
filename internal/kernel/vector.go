package kernel

import (
	"fmt"
	"math"
)

// Constants of Exp: e^x = 2^n e^r, n = round(x log2 e), r = x - n ln 2 in two parts,
// so that |r| <= ln(2)/2 carries no error that matters. The assembly repeats them.
const (
	expMost  = 89          // e^x has overflowed
	expLeast = -87         // e^x is hardly a normal number
	expFloor = -88         // keeps n in range
	expRound = 12582912    // 1.5 2^23: a sum with it has round(x) in its lowest bits
	log2e    = 1.44269504  //
	ln2Hi    = 0.693359375 // 9 bits: n*ln2Hi is exact
	ln2Lo    = -2.12194440e-4
)

// expPoly are the coefficients of (e^r - 1 - r)/r², highest first: Cephes' minimax
// polynomial on |r| <= ln(2)/2.
var expPoly = [...]float32{1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1}

// Exp sets dst[i] = e^src[i] with a relative error below 1.2e-7; 0 for src[i] < -87, since
// subnormal numbers are slow to compute with, +Inf above 88.37, NaN for NaN. dst may be src.
func Exp(dst, src []float32) {
	sameLength("Exp", len(dst), len(src))
	var lanes [8]float32
	expSum(dst, src, 1, 0, &lanes)
}

// expGo sets dst[i] = e^(scale*src[i] - shift) and adds it to lanes[i%8].
func expGo(dst, src []float32, scale, shift float32, lanes *[8]float32) {
	for i, v := range src {
		y := exp(float32(scale*v) - shift)
		dst[i] = y
		lanes[i%8] += y
	}
}

func exp(x float32) float32 {
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
	// The polynomial by pairs: a chain half as long.
	r2 := float32(r * r)
	a := float32(expPoly[0]*r) + expPoly[1]
	b := float32(expPoly[2]*r) + expPoly[3]
	c := float32(expPoly[4]*r) + expPoly[5]
	y := float32((float32(a*r2)+b)*r2) + c
	y = float32(y*r2) + r
	y++
	pow := math.Float32frombits(math.Float32bits(t)<<23 + math.Float32bits(1)) // 2^n; +Inf for n = 128
	if x < expLeast {
		return 0
	}
	return y * pow
}

// Softmax replaces row by softmax(scale*row), scale >= 0, the maximum subtracted
// first. The order of its sum depends on the row's length only. An entry may be
// -Inf, but not all of them. SoftmaxAgain does it again, given what Softmax returned.
func Softmax(row []float32, scale float32) (most, sum float32) {
	checkScale(scale)
	if len(row) == 0 {
		return 0, 1
	}
	most = float32(scale * largest(row))
	var lanes [8]float32
	expSum(row, row, scale, most, &lanes)
	sum = fold(&lanes)
	scaleRow(row, 1/sum)
	return most, sum
}

// SoftmaxAgain gives the bits of Softmax on the same row.
func SoftmaxAgain(row []float32, scale, most, sum float32) {
	var lanes [8]float32
	expSum(row, row, scale, most, &lanes)
	scaleRow(row, 1/sum)
}

func checkScale(scale float32) {
	if !(scale >= 0) {
		panic(fmt.Sprintf("kernel: Softmax: scale %g, must be >= 0", scale))
	}
}

// SoftmaxBackward replaces d, the derivatives of a loss by the probabilities
// prob = softmax(scale*s), by those by s, given dot = the sum of d*prob:
// d = prob (d - dot) scale.
func SoftmaxBackward(d, prob []float32, dot, scale float32) {
	sameLength("SoftmaxBackward", len(d), len(prob))
	softmaxBackward(d, prob, dot, scale)
}

func softmaxBackwardGo(d, prob []float32, dot, scale float32) {
	for i, v := range d {
		d[i] = float32(prob[i]*(v-dot)) * scale
	}
}

// LogSumExp is ln(sum of e^row[i]) without overflow, -Inf for an empty row. The order
// of its sum depends on the row's length only.
func LogSumExp(row []float32) float32 {
	if len(row) == 0 {
		return float32(math.Inf(-1))
	}
	m := largest(row)
	if math.IsInf(float64(m), 0) {
		return m // all are -Inf, or one is +Inf: the difference would be NaN
	}
	var lanes [8]float32
	var unused [128]float32
	for len(row) > 0 {
		n := min(len(row), len(unused))
		expSum(unused[:n], row[:n], 1, m, &lanes)
		row = row[n:]
	}
	return m + float32(math.Log(float64(fold(&lanes))))
}

// largest is the maximum of a row that is not empty. NaNs may be lost.
func largest(row []float32) float32 {
	lanes := [8]float32{row[0], row[0], row[0], row[0], row[0], row[0], row[0], row[0]}
	raise(row, &lanes)
	m := lanes[0]
	for _, v := range lanes[1:] {
		m = max(m, v)
	}
	return m
}

// raiseGo raises lanes to the maxima of x.
func raiseGo(x []float32, lanes *[8]float32) {
	for i, v := range x {
		if v > lanes[i%8] {
			lanes[i%8] = v
		}
	}
}

// Dot is the sum of a[i]*b[i]. Its order depends on the length only.
func Dot(a, b []float32) float32 {
	sameLength("Dot", len(a), len(b))
	var lanes [8]float32
	dot(a, b, &lanes)
	return fold(&lanes)
}

// dotGo adds a[i]*b[i] to lanes[i%8].
func dotGo(a, b []float32, lanes *[8]float32) {
	for i, v := range a {
		lanes[i%8] += float32(v * b[i])
	}
}

// fold adds lanes as a vector register is halved.
func fold(l *[8]float32) float32 {
	return ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]))
}

// Axpy adds a*x to y.
func Axpy(y []float32, a float32, x []float32) {
	sameLength("Axpy", len(y), len(x))
	axpy(y, a, x)
}

func axpyGo(y []float32, a float32, x []float32) {
	for i, v := range x {
		y[i] += float32(a * v)
	}
}

// Scale multiplies x by a.
func Scale(x []float32, a float32) { scaleRow(x, a) }

func scaleRowGo(x []float32, a float32) {
	for i := range x {
		x[i] *= a
	}
}

// Add sets dst = a + b; dst may be either.
func Add(dst, a, b []float32) {
	sameLength("Add", len(dst), len(a))
	sameLength("Add", len(dst), len(b))
	add(dst, a, b)
}

func addGo(dst, a, b []float32) {
	for i, v := range a {
		dst[i] = v + b[i]
	}
}

// ReLU sets dst = max(x, 0), NaN where x is NaN. dst may be x.
func ReLU(dst, x []float32) {
	sameLength("ReLU", len(dst), len(x))
	relu(dst, x)
}

func reluGo(dst, x []float32) {
	for i, v := range x {
		if v < 0 {
			v = 0
		}
		dst[i] = v
	}
}

// ReLUBackward sets dst = d where x > 0, else 0. dst may be d.
func ReLUBackward(dst, d, x []float32) {
	sameLength("ReLUBackward", len(dst), len(d))
	sameLength("ReLUBackward", len(dst), len(x))
	reluBackward(dst, d, x)
}

func reluBackwardGo(dst, d, x []float32) {
	for i, v := range d {
		if !(x[i] > 0) {
			v = 0
		}
		dst[i] = v
	}
}

func sameLength(name string, a, b int) {
	if a != b {
		panic(fmt.Sprintf("kernel: %s: lengths %d and %d differ", name, a, b))
	}
}
