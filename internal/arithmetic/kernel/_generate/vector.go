package main

import (
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The vector functions give bit-identical results to the portable Go functions, since they do not
// fuse operations. They process eight elements at a time, so the length n is a positive multiple of
// 8. The portable functions compute the remaining elements of a slice.

// eights emits a loop over n elements, eight per iteration. The parameter body emits the code for
// an iteration, given the byte offset.
func eights(body func(at reg.GPVirtual)) { eightsThen(body, func() {}) }

// eightsThen emits the loop of eights, followed by the code that the function `after` emits.
func eightsThen(body func(at reg.GPVirtual), after func()) {
	n := param("n")
	SHLQ(Imm(2), n)
	upTo("loop", 32, n, body)
	after()
	leave()
}

// function begins an assembly function whose pointers do not escape. The generated comment is the
// name followed by doc.
func function(name, signature, doc string, more ...string) {
	TEXT(name, NOSPLIT, signature)
	Pragma("noescape")
	Doc(append([]string{name + " " + doc}, more...)...)
}

// begin begins an assembly function on multiples of eight elements, and returns its pointer
// parameters.
func begin(name, signature string, pointers ...string) []reg.GPVirtual {
	twin := strings.TrimSuffix(name, "AVX2") + "Go"
	function(name, signature, "is "+twin+"; n > 0 a multiple of 8.")
	p := make([]reg.GPVirtual, len(pointers))
	for i, pointer := range pointers {
		p[i] = param(pointer)
	}
	return p
}

func param(name string) reg.GPVirtual { return Load(Param(name), GP64()).(reg.GPVirtual) }

// leave emits the return from a function that used wide registers.
func leave() {
	VZEROUPPER()
	RET()
}

// countdown emits a loop of n iterations, where n > 0.
func countdown(label string, n reg.GPVirtual, body func()) {
	Label(label)
	body()
	DECQ(n)
	JNZ(LabelRef(label))
}

// upTo emits a loop over the multiples of step below n, where n > 0. The parameter body emits the
// code for an iteration, given the multiple.
func upTo(label string, step int, n reg.GPVirtual, body func(at reg.GPVirtual)) {
	at := GP64()
	XORQ(at, at)
	upFrom(at, label, step, n, body)
}

// upFrom emits the loop of upTo, starting at the value of the register `at`, which must be below n.
func upFrom(
	at reg.GPVirtual, label string, step int, n reg.GPVirtual, body func(at reg.GPVirtual),
) {
	Label(label)
	body(at)
	ADDQ(Imm(uint64(step)), at)
	CMPQ(at, n)
	JL(LabelRef(label))
}

func index(base reg.Register, at reg.GPVirtual) Mem { return Mem{Base: base, Index: at, Scale: 1} }

func (s isa) broadcast(param string) reg.VecVirtual {
	v := s.vector()
	m, err := Param(param).Resolve()
	if err != nil {
		panic(err)
	}
	VBROADCASTSS(m.Addr, v)
	return v
}

func broadcast(param string) reg.VecVirtual { return avx2.broadcast(param) }

// constants emits eight copies of each float32 or int32 constant. It returns the memory operands in
// order.
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

func dot() {
	function("dotAVX2", "func(a, b *float32, n int, lanes *[8]float32)",
		"is dotGo; n > 0 a multiple of 8.")
	a, b, lanes := param("a"), param("b"), param("lanes")
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
	function("axpyAVX2", "func(y, x *float32, n int, a float32)",
		"is axpyGo; n > 0 a multiple of 8.")
	y, x := param("y"), param("x")
	a := broadcast("a")
	eights(func(at reg.GPVirtual) {
		v := YMM()
		VMULPS(index(x, at), a, v)
		VADDPS(index(y, at), v, v)
		VMOVUPS(v, index(y, at))
	})
}

func scale() {
	function("scaleRowAVX2", "func(x *float32, n int, a float32)",
		"is scaleRowGo; n > 0 a multiple of 8.")
	x := param("x")
	a := broadcast("a")
	eights(func(at reg.GPVirtual) {
		v := YMM()
		VMULPS(index(x, at), a, v)
		VMOVUPS(v, index(x, at))
	})
}

// largest emits the maximum of n floats. While at least 32 floats remain, it computes four
// independent maxima.
func largest() {
	function("raiseAVX2", "func(x *float32, n int, lanes *[8]float32)",
		"raises lanes to the maxima of x; n > 0 a multiple of 8. NaNs may be lost.")
	x, n, lanes := param("x"), param("n"), param("lanes")
	most := [4]reg.VecVirtual{YMM(), YMM(), YMM(), YMM()}
	for _, m := range most {
		VMOVUPS(Mem{Base: lanes}, m)
	}
	SUBQ(Imm(32), n)
	JL(LabelRef("rest"))
	Label("loop")
	for i, m := range most {
		VMAXPS(Mem{Base: x, Disp: 32 * i}, m, m)
	}
	ADDQ(Imm(128), x)
	SUBQ(Imm(32), n)
	JGE(LabelRef("loop"))
	Label("rest")
	ADDQ(Imm(32), n)
	JZ(LabelRef("finish"))
	Label("eight")
	VMAXPS(Mem{Base: x}, most[0], most[0])
	ADDQ(Imm(32), x)
	SUBQ(Imm(8), n)
	JNZ(LabelRef("eight"))
	Label("finish")
	VMAXPS(most[1], most[0], most[0])
	VMAXPS(most[3], most[2], most[2])
	VMAXPS(most[2], most[0], most[0])
	VMOVUPS(most[0], Mem{Base: lanes})
	leave()
}

func add() {
	p := begin("addAVX2", "func(dst, a, b *float32, n int)", "dst", "a", "b")
	eights(func(at reg.GPVirtual) {
		v := YMM()
		VMOVUPS(index(p[1], at), v)
		VADDPS(index(p[2], at), v, v)
		VMOVUPS(v, index(p[0], at))
	})
}

func relu() {
	p := begin("reluAVX2", "func(dst, x *float32, n int)", "dst", "x")
	zero := YMM()
	VXORPS(zero, zero, zero)
	eights(func(at reg.GPVirtual) {
		v := YMM()
		VMOVUPS(index(p[1], at), v)
		VMAXPS(v, zero, v) // the result is v if v is NaN or zero
		VMOVUPS(v, index(p[0], at))
	})
}

func reluBackward() {
	p := begin("reluBackwardAVX2", "func(dst, d, x *float32, n int)", "dst", "d", "x")
	zero := YMM()
	VXORPS(zero, zero, zero)
	eights(func(at reg.GPVirtual) {
		const less = 1 // comparison predicate LT_OS
		v := YMM()
		VCMPPS(Imm(less), index(p[2], at), zero, v)
		VANDPS(index(p[1], at), v, v)
		VMOVUPS(v, index(p[0], at))
	})
}

func softmaxBackward() {
	p := begin("softmaxBackwardAVX2", "func(d, prob *float32, n int, dot, scale float32)", "d",
		"prob")
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

func widen() {
	p := begin("widenAVX2", "func(dst *float32, src *uint16, n int)", "dst", "src")
	eights(func(at reg.GPVirtual) { VMOVUPS(widened(p[1], at), index(p[0], at)) })
}

func addWiden() {
	p := begin("addWidenAVX2", "func(dst *float32, src *uint16, n int)", "dst", "src")
	eights(func(at reg.GPVirtual) {
		v := widened(p[1], at)
		VADDPS(index(p[0], at), v, v)
		VMOVUPS(v, index(p[0], at))
	})
}

// widened emits a load of eight bfloat16 numbers as float32. The register `at` contains the byte
// offset of the same elements in a float32 array.
func widened(base reg.Register, at reg.GPVirtual) reg.VecVirtual {
	v, half := YMM(), GP64()
	MOVQ(at, half)
	SHRQ(Imm(1), half)
	VPMOVZXWD(index(base, half), v)
	VPSLLD(Imm(16), v, v)
	return v
}

func adam() {
	function("adamAVX2", "func(w, m, v, grad *float32, n int, "+
		"scale, beta1, rest1, beta2, rest2, rate, root, eps float32)",
		"is Adam.portable; n > 0 a multiple of 8.")
	w, m, v, g := param("w"), param("m"), param("v"), param("grad")
	scale, beta1, rest1, beta2, rest2 := broadcast("scale"), broadcast("beta1"), broadcast("rest1"),
		broadcast("beta2"), broadcast("rest2")
	rate, root, eps := broadcast("rate"), broadcast("root"), broadcast("eps")
	eights(func(at reg.GPVirtual) {
		d, first, second, t := YMM(), YMM(), YMM(), YMM()
		VMULPS(index(g, at), scale, d)
		VMULPS(index(m, at), beta1, first)
		VMULPS(rest1, d, t)
		VADDPS(t, first, first)
		VMOVUPS(first, index(m, at))
		VMULPS(d, d, d)
		VMULPS(rest2, d, d)
		VMULPS(index(v, at), beta2, second)
		VADDPS(d, second, second)
		VMOVUPS(second, index(v, at))
		VSQRTPS(second, second)
		VMULPS(root, second, second)
		VADDPS(eps, second, second)
		VMULPS(rate, first, first)
		VDIVPS(second, first, first)
		VMOVUPS(index(w, at), t)
		VSUBPS(first, t, t)
		VMOVUPS(t, index(w, at))
	})
}
