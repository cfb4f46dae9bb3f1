package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// log emits the natural logarithm: the number is parted into a power of two and a factor near one
// by its bits, and what is no positive normal number is put right at the end.
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

	p := begin("logAVX2", "func(dst, src *float32, n int)", "logGo", "dst", "src")
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

		const less, equal, notGreaterOrEqual = 17, 0, 25 // LT_OQ, EQ_OQ, NGE_UQ
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
