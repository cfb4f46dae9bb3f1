package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The vector functions do what their portable twins do, eight elements at a time and
// without fusing, so that they give the same bits. n > 0 is a multiple of 8; what
// remains of a slice is left to the twins.

// eights emits a loop over n elements, whose body finds the offset in bytes in at.
func eights(body func(at reg.GPVirtual)) { eightsThen(body, func() {}) }

// eightsThen is eights with something to do after the loop.
func eightsThen(body func(at reg.GPVirtual), after func()) {
	n, at := Load(Param("n"), GP64()), GP64()
	SHLQ(Imm(2), n)
	XORQ(at, at)
	Label("loop")
	body(at)
	ADDQ(Imm(32), at)
	CMPQ(at, n)
	JL(LabelRef("loop"))
	after()
	VZEROUPPER()
	RET()
}

// index is eight elements from the offset at.
func index(base reg.Register, at reg.GPVirtual) Mem { return Mem{Base: base, Index: at, Scale: 1} }

// broadcast fills a register with a scalar parameter.
func broadcast(param string) reg.VecVirtual {
	v := YMM()
	m, err := Param(param).Resolve()
	if err != nil {
		panic(err)
	}
	VBROADCASTSS(m.Addr, v)
	return v
}

// constants lays out float32 and int32 constants, eight of each, and returns the
// memory operand of each in order.
func constants(name string, bits ...uint32) []Mem {
	g := GLOBL(name, RODATA|NOPTR)
	m := make([]Mem, len(bits))
	for i, b := range bits {
		for l := range 8 {
			DATA(32*i+4*l, U32(b))
		}
		m[i] = g.Offset(32 * i)
	}
	return m
}

func exp() {
	f := math.Float32bits
	c := constants("expConstants", f(100), f(-104), f(1.44269504), f(0.693359375), f(-2.12194440e-4),
		f(1.9875691500e-4), f(1.3981999507e-3), f(8.3334519073e-3), f(4.1665795894e-2), f(1.6666665459e-1), f(5.0000001201e-1),
		f(1), 127)
	most, least, log2e, ln2Hi, ln2Lo, poly, one, bias := c[0], c[1], c[2], c[3], c[4], c[5:11], c[11], c[12]

	TEXT("expAVX2", NOSPLIT, "func(dst, src *float32, n int, scale, shift float32, lanes *[8]float32)")
	Pragma("noescape")
	Doc("expAVX2 is expGo; n > 0 a multiple of 8.")
	dst, src := Load(Param("dst"), GP64()), Load(Param("src"), GP64())
	lanes := Load(Param("lanes"), GP64())
	factor, shift, sum := broadcast("scale"), broadcast("shift"), YMM()
	VMOVUPS(Mem{Base: lanes}, sum)
	eightsThen(func(at reg.GPVirtual) {
		x, n, r, y, t := YMM(), YMM(), YMM(), YMM(), YMM()
		VMULPS(index(src, at), factor, x)
		VSUBPS(shift, x, x)
		VMOVUPS(most, t)
		VMINPS(x, t, x) // the last source, x, is the result if x is NaN
		VMOVUPS(least, t)
		VMAXPS(x, t, x)

		VMULPS(log2e, x, n)
		VROUNDPS(Imm(0), n, n)
		VMULPS(ln2Hi, n, t)
		VSUBPS(t, x, r)
		VMULPS(ln2Lo, n, t)
		VSUBPS(t, r, r)
		VMOVUPS(poly[0], y)
		for _, p := range poly[1:] {
			VMULPS(r, y, y)
			VADDPS(p, y, y)
		}
		VMULPS(r, y, y)
		VMULPS(r, y, y)
		VADDPS(r, y, y)
		VADDPS(one, y, y)

		whole, half := YMM(), YMM()
		VCVTPS2DQ(n, whole)
		VPSRAD(Imm(1), whole, half)
		VPSUBD(half, whole, whole)
		for _, e := range []reg.VecVirtual{half, whole} {
			VPADDD(bias, e, e)
			VPSLLD(Imm(23), e, e)
			VMULPS(e, y, y)
		}
		VMOVUPS(y, index(dst, at))
		VADDPS(y, sum, sum)
	}, func() { VMOVUPS(sum, Mem{Base: lanes}) })
}

func dot() {
	TEXT("dotAVX2", NOSPLIT, "func(a, b *float32, n int, lanes *[8]float32)")
	Pragma("noescape")
	Doc("dotAVX2 is dotGo; n > 0 a multiple of 8.")
	a, b := Load(Param("a"), GP64()), Load(Param("b"), GP64())
	lanes := Load(Param("lanes"), GP64())
	sum := YMM()
	VMOVUPS(Mem{Base: lanes}, sum)
	eightsThen(func(at reg.GPVirtual) {
		v := YMM()
		VMOVUPS(index(a, at), v)
		VMULPS(index(b, at), v, v)
		VADDPS(v, sum, sum)
	}, func() { VMOVUPS(sum, Mem{Base: lanes}) })
}

func axpy() {
	TEXT("axpyAVX2", NOSPLIT, "func(y, x *float32, n int, a float32)")
	Pragma("noescape")
	Doc("axpyAVX2 is axpyGo; n > 0 a multiple of 8.")
	y, x := Load(Param("y"), GP64()), Load(Param("x"), GP64())
	a := broadcast("a")
	eights(func(at reg.GPVirtual) {
		v := YMM()
		VMULPS(index(x, at), a, v)
		VADDPS(index(y, at), v, v)
		VMOVUPS(v, index(y, at))
	})
}

func scale() {
	TEXT("scaleAVX2", NOSPLIT, "func(x *float32, n int, a float32)")
	Pragma("noescape")
	Doc("scaleAVX2 is scaleGo; n > 0 a multiple of 8.")
	x := Load(Param("x"), GP64())
	a := broadcast("a")
	eights(func(at reg.GPVirtual) {
		v := YMM()
		VMULPS(index(x, at), a, v)
		VMOVUPS(v, index(x, at))
	})
}

func largest() {
	TEXT("largestAVX2", NOSPLIT, "func(x *float32, n int, lanes *[8]float32)")
	Pragma("noescape")
	Doc("largestAVX2 raises lanes to the maxima of x; n > 0 a multiple of 8. NaNs may be lost.")
	x := Load(Param("x"), GP64())
	lanes := Load(Param("lanes"), GP64())
	most := YMM()
	VMOVUPS(Mem{Base: lanes}, most)
	eightsThen(func(at reg.GPVirtual) {
		VMAXPS(index(x, at), most, most)
	}, func() { VMOVUPS(most, Mem{Base: lanes}) })
}

func add() {
	p := begin("addAVX2", "func(dst, a, b *float32, n int)", "addGo", "dst", "a", "b")
	eights(func(at reg.GPVirtual) {
		v := YMM()
		VMOVUPS(index(p[1], at), v)
		VADDPS(index(p[2], at), v, v)
		VMOVUPS(v, index(p[0], at))
	})
}

func relu() {
	p := begin("reluAVX2", "func(dst, x *float32, n int)", "reluGo", "dst", "x")
	zero := YMM()
	VXORPS(zero, zero, zero)
	eights(func(at reg.GPVirtual) {
		v := YMM()
		VMOVUPS(index(p[1], at), v)
		VMAXPS(v, zero, v) // v if it is NaN or a zero
		VMOVUPS(v, index(p[0], at))
	})
}

func reluBackward() {
	p := begin("reluBackwardAVX2", "func(dst, d, x *float32, n int)", "reluBackwardGo", "dst", "d", "x")
	zero := YMM()
	VXORPS(zero, zero, zero)
	eights(func(at reg.GPVirtual) {
		const less = 1 // LT_OS
		v := YMM()
		VCMPPS(Imm(less), index(p[2], at), zero, v)
		VANDPS(index(p[1], at), v, v)
		VMOVUPS(v, index(p[0], at))
	})
}

func softmaxBackward() {
	p := begin("softmaxBackwardAVX2", "func(d, prob *float32, n int, dot, scale float32)", "softmaxBackwardGo", "d", "prob")
	dot, scale := broadcast("dot"), broadcast("scale")
	eights(func(at reg.GPVirtual) {
		v := YMM()
		VMOVUPS(index(p[0], at), v)
		VSUBPS(dot, v, v)
		VMULPS(index(p[1], at), v, v)
		VMULPS(scale, v, v)
		VMOVUPS(v, index(p[0], at))
	})
}
