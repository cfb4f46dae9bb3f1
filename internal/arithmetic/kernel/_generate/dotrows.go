package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func rows() {
	dotRows()
	axpyRows()
}

// axpyRows emits code that adds multiples of rows to the vector y, eight columns at a time.
func axpyRows() {
	function("axpyRowsAVX2", "func(y, a, x *float32, rows, n int)",
		"is axpyRowsGo; rows > 0, n > 0 a multiple of 8.")
	y, a, x, rows, n := param("y"), param("a"), param("x"), param("rows"), param("n")
	SHLQ(Imm(2), n)
	upTo("columns", 32, n, func(at reg.GPVirtual) {
		sum, by, v, i, row := YMM(), YMM(), YMM(), GP64(), GP64()
		VMOVUPS(index(y, at), sum)
		LEAQ(index(x, at), row)
		XORQ(i, i)
		Label("next")
		VBROADCASTSS(Mem{Base: a, Index: i, Scale: 4}, by)
		VMULPS(Mem{Base: row}, by, v)
		VADDPS(v, sum, sum)
		ADDQ(n, row)
		INCQ(i)
		CMPQ(i, rows)
		JL(LabelRef("next"))
		VMOVUPS(sum, index(y, at))
	})
	leave()
}

// dotRows emits code for scalar products of rows. The results are bit-identical to those of the Go
// functions dot and fold.
func dotRows() {
	function("dotRowsAVX2", "func(dst, x, w *float32, rows, n, stride int)",
		"is dotRowsGo; rows > 0, n > 0 a multiple of 8.")
	dst, x, w := param("dst"), param("x"), param("w")
	rows, n, stride := param("rows"), param("n"), param("stride")
	SHLQ(Imm(2), n)
	SHLQ(Imm(2), stride)
	Label("row")
	sum, v := YMM(), YMM()
	VXORPS(sum, sum, sum)
	upTo("eight", 32, n, func(at reg.GPVirtual) {
		VMOVUPS(index(x, at), v)
		VMULPS(index(w, at), v, v)
		VADDPS(v, sum, sum)
	})

	four, two := XMM(), XMM()
	VEXTRACTF128(Imm(1), sum, four)
	VADDPS(four, sum.AsX(), four) // adds lanes 0 and 4, 1 and 5, 2 and 6, 3 and 7
	VMOVHLPS(four, four, two)
	VADDPS(two, four, four) // adds lanes 0 and 2, and lanes 1 and 3, of the four sums
	VMOVSHDUP(four, two)
	VADDSS(two, four, four)
	VMOVSS(four, Mem{Base: dst})
	ADDQ(Imm(4), dst)
	ADDQ(n, x)
	ADDQ(stride, w)
	DECQ(rows)
	JNZ(LabelRef("row"))
	leave()
}
