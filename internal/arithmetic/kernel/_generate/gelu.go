package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// normal contains the constants for the normal distribution function. They equal those in
// vector_portable.go.
type normal struct {
	exponential
	magnitude, most, head, minusHalf, invSqrt2Pi Mem
	above, below                                 []Mem // coefficients, highest power first
}

func newNormal(e exponential) normal {
	f := math.Float32bits
	c := constants("normalConstants", 1<<31-1, f(16), 0xFFFFF000, f(-0.5),
		f(0.398942280401432677939946),
		f(4.06442414566e-3), f(4.02903160367e-2), f(0.182227921664), f(0.436950925651), f(0.5),
		f(1.01878706222e-2), f(0.100999708932), f(0.466808651479), f(1.19834447691),
		f(1.67178676819), f(1))
	return normal{exponential: e, magnitude: c[0], most: c[1], head: c[2], minusHalf: c[3],
		invSqrt2Pi: c[4],
		above:      c[5:10], below: c[10:16]}
}

func (c normal) gelu() {
	p := begin("geluAVX2", "func(dst, x *float32, n int)", "dst", "x")
	eights(func(at reg.GPVirtual) {
		x := YMM()
		VMOVUPS(index(p[1], at), x)
		below, _ := c.of(x)
		VMULPS(below, x, x)
		VMOVUPS(x, index(p[0], at))
	})
}

func (c normal) geluBackward() {
	p := begin("geluBackwardAVX2", "func(dst, d, x *float32, n int)", "dst", "d", "x")
	eights(func(at reg.GPVirtual) {
		x := YMM()
		VMOVUPS(index(p[2], at), x)
		below, e := c.of(x)
		VMULPS(c.invSqrt2Pi, e, e)
		VMULPS(e, x, x)
		VADDPS(x, below, x)
		VMULPS(index(p[1], at), x, x)
		VMOVUPS(x, index(p[0], at))
	})
}

// of emits the normal distribution function at x, and e^(-x²/2).
func (c normal) of(x reg.VecVirtual) (below, e reg.VecVirtual) {
	a, head, low, v := YMM(), YMM(), YMM(), YMM()
	VANDPS(c.magnitude, x, a)
	VMOVUPS(c.most, v)
	VMINPS(a, v, a) // a is the last source, so that a NaN in a stays NaN
	VANDPS(c.head, a, head)
	VSUBPS(head, a, low)
	VADDPS(head, a, v)
	VMULPS(v, low, low)
	VMULPS(c.minusHalf, low, low)
	VMULPS(head, head, head)
	VMULPS(c.minusHalf, head, head)
	e = c.exponential.of(head, low)

	above, under := polynomial(c.above, a), polynomial(c.below, a)
	VDIVPS(under, above, above)
	below = YMM()
	VMULPS(above, e, below)
	VMOVUPS(c.one, v)
	VSUBPS(below, v, v)
	VBLENDVPS(x, below, v, below) // selects below or v by the sign of x
	return below, e
}

// polynomial emits the value of a polynomial at x, by Horner's rule.
func polynomial(coefficients []Mem, x reg.VecVirtual) reg.VecVirtual {
	y := YMM()
	VMOVUPS(coefficients[0], y)
	for _, c := range coefficients[1:] {
		VMULPS(x, y, y)
		VADDPS(c, y, y)
	}
	return y
}
