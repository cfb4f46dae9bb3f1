package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// exponential is the constants of e^x, as in vector_portable.go.
type exponential struct {
	most, floor, least, log2e, round, ln2Hi, ln2Lo, one Mem
	poly                                                []Mem
}

func newExponential() exponential {
	f := math.Float32bits
	c := constants("expConstants", f(89), f(-88), f(-87), f(1.44269504), f(12582912), f(0.693359375), f(-2.12194440e-4),
		f(1.9875691500e-4), f(1.3981999507e-3), f(8.3334519073e-3), f(4.1665795894e-2), f(1.6666665459e-1), f(5.0000001201e-1),
		f(1))
	return exponential{most: c[0], floor: c[1], least: c[2], log2e: c[3], round: c[4], ln2Hi: c[5], ln2Lo: c[6], poly: c[7:13], one: c[13]}
}

func (c exponential) exp() {
	function("expAVX2", "func(dst, src *float32, n int, scale, shift float32, lanes *[8]float32)",
		"is expGo; n > 0 a multiple of 8.")
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

// of emits expOf: e^(x+low), or e^x if low is nil. x is lost.
func (c exponential) of(x, low reg.VecVirtual) reg.VecVirtual {
	t, n, r, r2, y, v := YMM(), YMM(), YMM(), YMM(), YMM(), YMM()
	VMOVUPS(c.most, v)
	VMINPS(x, v, x) // the last source, x, is the result if x is NaN
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
