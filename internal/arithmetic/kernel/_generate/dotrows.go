package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// rows emits what is done to some rows at once.
func rows() {
	dotRows()
	axpyRows()
}

// axpyRows emits the sum of y and multiples of rows, eight columns after the other.
func axpyRows() {
	TEXT("axpyRowsAVX2", NOSPLIT, "func(y, a, x *float32, rows, n int)")
	Pragma("noescape")
	Doc("axpyRowsAVX2 is axpyRowsGo; rows > 0, n > 0 a multiple of 8.")
	y, a, x := Load(Param("y"), GP64()), Load(Param("a"), GP64()), Load(Param("x"), GP64())
	rows, n := Load(Param("rows"), GP64()), Load(Param("n"), GP64())
	SHLQ(Imm(2), n)
	at := GP64()
	XORQ(at, at)
	Label("columns")
	sum, by, v, i, row := YMM(), YMM(), YMM(), GP64(), GP64()
	VMOVUPS(Mem{Base: y, Index: at, Scale: 1}, sum)
	LEAQ(Mem{Base: x, Index: at, Scale: 1}, row)
	XORQ(i, i)
	Label("next")
	VBROADCASTSS(Mem{Base: a, Index: i, Scale: 4}, by)
	VMULPS(Mem{Base: row}, by, v)
	VADDPS(v, sum, sum)
	ADDQ(n, row)
	INCQ(i)
	CMPQ(i, rows)
	JL(LabelRef("next"))
	VMOVUPS(sum, Mem{Base: y, Index: at, Scale: 1})
	ADDQ(Imm(32), at)
	CMPQ(at, n)
	JL(LabelRef("columns"))
	VZEROUPPER()
	RET()
}

// dotRows emits scalar products of rows, each as dot and the fold of its lanes give it.
func dotRows() {
	TEXT("dotRowsAVX2", NOSPLIT, "func(dst, x, w *float32, rows, n, stride int)")
	Pragma("noescape")
	Doc("dotRowsAVX2 is dotRowsGo; rows > 0, n > 0 a multiple of 8.")
	dst, x, w := Load(Param("dst"), GP64()), Load(Param("x"), GP64()), Load(Param("w"), GP64())
	rows, n, stride := Load(Param("rows"), GP64()), Load(Param("n"), GP64()), Load(Param("stride"), GP64())
	SHLQ(Imm(2), n)
	SHLQ(Imm(2), stride)
	Label("row")
	sum, v, at := YMM(), YMM(), GP64()
	VXORPS(sum, sum, sum)
	XORQ(at, at)
	Label("eight")
	VMOVUPS(Mem{Base: x, Index: at, Scale: 1}, v)
	VMULPS(Mem{Base: w, Index: at, Scale: 1}, v, v)
	VADDPS(v, sum, sum)
	ADDQ(Imm(32), at)
	CMPQ(at, n)
	JL(LabelRef("eight"))

	four, two := XMM(), XMM()
	VEXTRACTF128(Imm(1), sum, four)
	VADDPS(four, sum.AsX(), four) // lanes 0+4, 1+5, 2+6, 3+7
	VMOVHLPS(four, four, two)
	VADDPS(two, four, four) // the first and the third, the second and the fourth
	VMOVSHDUP(four, two)
	VADDSS(two, four, four)
	VMOVSS(four, Mem{Base: dst})
	ADDQ(Imm(4), dst)
	ADDQ(n, x)
	ADDQ(stride, w)
	DECQ(rows)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}
