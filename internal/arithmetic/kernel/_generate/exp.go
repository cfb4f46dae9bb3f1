package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// exponential contains the constants for e^x. They equal those in vector_portable.go.
type exponential struct {
	most, floor, least, log2e, round, ln2Hi, ln2Lo, one Mem
	poly                                                []Mem
}

func newExponential() exponential {
	f := math.Float32bits
	c := constants("expConstants", f(89), f(-88), f(-87), f(1.44269504), f(12582912),
		f(0.693359375), f(-2.12194440e-4),
		f(1.9875691500e-4), f(1.3981999507e-3), f(8.3334519073e-3), f(4.1665795894e-2),
		f(1.6666665459e-1), f(5.0000001201e-1),
		f(1))
	return exponential{most: c[0], floor: c[1], least: c[2], log2e: c[3], round: c[4], ln2Hi: c[5],
		ln2Lo: c[6], poly: c[7:13], one: c[13]}
}

func (c exponential) exp() {
	function("expSumAVX2",
		"func(dst, src *float32, n int, scale, shift float32, lanes *[8]float32)",
		"is expSumGo; n > 0 a multiple of 8.")
	dst, src, lanes := param("dst"), param("src"), param("lanes")
	factor, shift, sum := broadcast("scale"), broadcast("shift"), YMM()
	VMOVUPS(Mem{Base: lanes}, sum)
	eightsThen(func(at reg.GPVirtual) {
		x := YMM()
		VMULPS(index(src, at), factor, x)
		VSUBPS(shift, x, x)
		y := c.of(x, nil)
		VMOVUPS(y, index(dst, at))
		VADDPS(y, sum, sum)
	}, func() { VMOVUPS(sum, Mem{Base: lanes}) })
}

// of emits the Go function expOf in assembly: e^(x+low), or e^x if low is nil. It overwrites x.
func (c exponential) of(x, low reg.VecVirtual) reg.VecVirtual {
	t, n, r, r2, y, v := YMM(), YMM(), YMM(), YMM(), YMM(), YMM()
	VMOVUPS(c.most, v)
	VMINPS(x, v, x) // x is the last source, so that a NaN in x stays NaN
	VMOVUPS(c.floor, v)
	VMAXPS(x, v, x)

	VMULPS(c.log2e, x, t)
	VADDPS(c.round, t, t)
	VSUBPS(c.round, t, n)
	VMULPS(c.ln2Hi, n, v)
	VSUBPS(v, x, r)
	VMULPS(c.ln2Lo, n, v)
	VSUBPS(v, r, r)
	if low != nil {
		VADDPS(low, r, r)
	}

	VMULPS(r, r, r2)
	pair := func(k int) reg.VecVirtual {
		p := YMM()
		VMULPS(c.poly[k], r, p)
		VADDPS(c.poly[k+1], p, p)
		return p
	}
	y, b, d := pair(0), pair(2), pair(4)
	VMULPS(r2, y, y)
	VADDPS(b, y, y)
	VMULPS(r2, y, y)
	VADDPS(d, y, y)
	VMULPS(r2, y, y)
	VADDPS(r, y, y)
	VADDPS(c.one, y, y)

	VPSLLD(Imm(23), t, t)
	VPADDD(c.one, t, t)
	VMULPS(t, y, y)
	const notLess = 5
	VCMPPS(Imm(notLess), c.least, x, v)
	VANDPS(v, y, y)
	return y
}

// log emits the natural logarithm. It splits a number into a power of two and a factor near 1. At
// the end it corrects the results for numbers that are not positive and normal.
func log() {
	f := math.Float32bits
	c := constants("logConstants", 0x3f3504f3, 0x7fffff, f(1), f(0.5), f(0.693359375),
		f(-2.12194440e-4), f(1.1754943508222875e-38), f(float32(math.Inf(-1))),
		f(float32(math.Inf(1))), 0x7fc00000,
		f(7.0376836292e-2), f(-1.1514610310e-1), f(1.1676998740e-1), f(-1.2420140846e-1),
		f(1.4249322787e-1), f(-1.6668057665e-1), f(2.0000714765e-1), f(-2.4999993993e-1),
		f(3.3333331174e-1))
	half, mantissa, one, oneHalf, ln2Hi, ln2Lo := c[0], c[1], c[2], c[3], c[4], c[5]
	least, minusInf, inf, nan, poly := c[6], c[7], c[8], c[9], c[10:]

	p := begin("logAVX2", "func(dst, src *float32, n int)", "dst", "src")
	zero := YMM()
	VXORPS(zero, zero, zero)
	eights(func(at reg.GPVirtual) {
		x, n, f, f2, y, v := YMM(), YMM(), YMM(), YMM(), YMM(), YMM()
		VMOVUPS(index(p[1], at), x)
		VPSUBD(half, x, v)
		VPSRAD(Imm(23), v, n)
		VCVTDQ2PS(n, n)
		VPAND(mantissa, v, v)
		VPADDD(half, v, v)
		VSUBPS(one, v, f)

		VMOVUPS(poly[0], y)
		for _, k := range poly[1:] {
			VMULPS(f, y, y)
			VADDPS(k, y, y)
		}
		VMULPS(f, f, f2)
		VMULPS(f, y, y)
		VMULPS(f2, y, y)
		VMULPS(ln2Lo, n, v)
		VADDPS(v, y, y)
		VMULPS(oneHalf, f2, v)
		VSUBPS(v, y, y)
		VADDPS(f, y, y)
		VMULPS(ln2Hi, n, v)
		VADDPS(v, y, y)

		const less, equal, notGreaterOrEqual = 17, 0, 25 // LT_OQ, EQ_OQ and NGE_UQ
		put := func(condition uint64, bound, value Op) {
			mask, v := YMM(), YMM()
			VCMPPS(Imm(condition), bound, x, mask)
			VMOVUPS(value, v)
			VBLENDVPS(mask, v, y, y)
		}
		put(less, least, minusInf)
		put(equal, inf, inf)
		put(notGreaterOrEqual, zero, nan)
		VMOVUPS(y, index(p[0], at))
	})
}
