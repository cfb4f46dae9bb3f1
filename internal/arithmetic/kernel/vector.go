package kernel

import (
	"fmt"
	"math"
)

// Exp sets dst[i] = e^src[i] with a relative error below 1.2e-7. The result is 0 for src[i] < -87,
// since computing with subnormal numbers is slow. It is +Inf above 88.37, and NaN for NaN. dst may
// be src.
func (v Vectors) Exp(dst, src []float32) {
	sameLength("Exp", len(dst), len(src))
	var lanes [8]float32
	v.expSum(dst, src, 1, 0, &lanes)
}

// Softmax replaces row by softmax(scale*row), where scale >= 0. To avoid overflow, it first
// subtracts the maximum. The order of additions depends only on the row's length. Some entries may
// be -Inf, but not all. SoftmaxAgain needs the returned maximum and sum.
func (v Vectors) Softmax(row []float32, scale float32) (most, sum float32) {
	checkScale(scale)
	if len(row) == 0 {
		return 0, 1
	}
	most = float32(scale * v.largest(row))
	var lanes [8]float32
	v.expSum(row, row, scale, most, &lanes)
	sum = fold(&lanes)
	v.scaleRow(row, 1/sum)
	return most, sum
}

// SoftmaxAgain repeats Softmax with a bit-identical result. It needs the same row, and the maximum
// and sum that Softmax returned.
func (v Vectors) SoftmaxAgain(row []float32, scale, most, sum float32) {
	var lanes [8]float32
	v.expSum(row, row, scale, most, &lanes)
	v.scaleRow(row, 1/sum)
}

func checkScale(scale float32) {
	if !(scale >= 0) {
		panic(fmt.Sprintf("kernel: Softmax: scale is %g, expected 0 or more", scale))
	}
}

// SoftmaxBackward replaces d, the gradient of prob = softmax(scale*s), by the gradient of s, which
// is prob (d - dot) scale. The parameter dot must be the sum of d*prob.
func (v Vectors) SoftmaxBackward(d, prob []float32, dot, scale float32) {
	sameLength("SoftmaxBackward", len(d), len(prob))
	v.softmaxBackward(d, prob, dot, scale)
}

// LogSumExp returns ln(sum of e^row[i]) without overflow, and -Inf for an empty row. The order of
// additions depends only on the row's length.
func (v Vectors) LogSumExp(row []float32) float32 {
	if len(row) == 0 {
		return float32(math.Inf(-1))
	}
	m := v.largest(row)
	if math.IsInf(float64(m), 0) {
		return m // if m is infinite, row[i] - m would be NaN
	}
	var lanes [8]float32
	var unused [128]float32
	for len(row) > 0 {
		n := min(len(row), len(unused))
		v.expSum(unused[:n], row[:n], 1, m, &lanes)
		row = row[n:]
	}
	return m + float32(math.Log(float64(fold(&lanes))))
}

// largest returns the maximum of a non-empty row. It may ignore NaNs.
func (v Vectors) largest(row []float32) float32 {
	lanes := [8]float32{row[0], row[0], row[0], row[0], row[0], row[0], row[0], row[0]}
	v.raise(row, &lanes)
	m := lanes[0]
	for _, v := range lanes[1:] {
		m = max(m, v)
	}
	return m
}

// Dot returns the sum of a[i]*b[i]. The order of additions depends only on the length.
func (v Vectors) Dot(a, b []float32) float32 {
	sameLength("Dot", len(a), len(b))
	var lanes [8]float32
	v.dot(a, b, &lanes)
	return fold(&lanes)
}

// Axpy adds a*x to y.
func (v Vectors) Axpy(y []float32, a float32, x []float32) {
	sameLength("Axpy", len(y), len(x))
	v.axpy(y, x, a)
}

// Scale multiplies x by a.
func (v Vectors) Scale(x []float32, a float32) { v.scaleRow(x, a) }

// Add sets dst = a + b. dst may be a or b.
func (v Vectors) Add(dst, a, b []float32) {
	sameLength("Add", len(dst), len(a))
	sameLength("Add", len(dst), len(b))
	v.add(dst, a, b)
}

// ReLU sets dst = max(x, 0), element by element, and NaN where x is NaN. dst may be x.
func (v Vectors) ReLU(dst, x []float32) {
	sameLength("ReLU", len(dst), len(x))
	v.relu(dst, x)
}

// ReLUBackward sets dst = d where x > 0, else 0. dst may be d.
func (v Vectors) ReLUBackward(dst, d, x []float32) {
	sameLength("ReLUBackward", len(dst), len(d))
	sameLength("ReLUBackward", len(dst), len(x))
	v.reluBackward(dst, d, x)
}

// GELU sets dst = x Phi(x), where Phi is the standard normal distribution function. For x > -13 the
// relative error is below 6e-7, or 10 units in the last place. For smaller x the exact value is
// closer to 0 than 1e-36, and the result is 0. The result is NaN for NaN and -Inf. dst may be x.
func (v Vectors) GELU(dst, x []float32) {
	sameLength("GELU", len(dst), len(x))
	v.gelu(dst, x)
}

// GELUBackward sets dst to d times the derivative of GELU at x. The derivative is Phi(x) + x phi(x)
// with an error below 3e-7, where phi is the density of Phi. The result is NaN where x is NaN or
// infinite. dst may be d.
func (v Vectors) GELUBackward(dst, d, x []float32) {
	sameLength("GELUBackward", len(dst), len(d))
	sameLength("GELUBackward", len(dst), len(x))
	v.geluBackward(dst, d, x)
}

// Load sets dst to the elements of an array, as float32.
func (v Vectors) Load(dst []float32, a Array) {
	sameLength("Load", len(dst), a.Len())
	if a.BF16 != nil {
		v.widen(dst, a.BF16)
	}
	copy(dst, a.F32)
}

// AddTo adds the elements of an array to dst.
func (v Vectors) AddTo(dst []float32, a Array) {
	sameLength("AddTo", len(dst), a.Len())
	if a.BF16 != nil {
		v.addWiden(dst, a.BF16)
		return
	}
	v.add(dst, dst, a.F32)
}

// Adam updates the weights w by one step of the optimizer, with the moments m and v and the
// gradient g. Results are bit-identical on every machine, since no product is fused with a sum.
func (x Vectors) Adam(a *Adam, w, m, v, g []float32) {
	sameLength("Adam", len(w), len(m))
	sameLength("Adam", len(w), len(v))
	sameLength("Adam", len(w), len(g))
	n := x.adam(a, w, m, v, g)
	a.portable(w[n:], m[n:], v[n:], g[n:])
}

// Adapt executes the update that the Adaptation describes, and returns the number of elements of M
// that it wrote.
func (x Vectors) Adapt(a *Adaptation) (written int) {
	n, written := x.adapt(a)
	for lo := n; lo < len(a.G); lo += strip {
		written += a.portable(lo, min(lo+strip, len(a.G)))
	}
	return written
}

// PeakRounds runs independent chains of multiply-adds without memory access, with the instructions
// of v. It returns the number of floating-point operations, two per multiply-add. Benchmarks
// compare matrix products with this speed, since no product can be faster. rounds must be positive.
//
// Without assembly, PeakRounds is a scalar loop with separate multiplications and additions, like
// the portable products.
func (v Vectors) PeakRounds(rounds int) (flops int) {
	return 2 * rounds * peakSteps * peakChains * v.runPeak(rounds)
}

// PeakName describes the instructions that PeakRounds executes.
func (v Vectors) PeakName() string { return v.peakName() }
