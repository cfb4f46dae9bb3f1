package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// fewRows emits C = A Bᵀ for a few rows of A and 16 rows of B, without packing. It transposes
// blocks of B in registers, so that every element of C is a chain of multiply-adds over k.
func fewRows(rows int) {
	name := fmt.Sprintf("few%dAVX2", rows)
	function(name,
		"func(k int, a *float32, row int, b *float32, width int, c *float32, stride int, acc bool)",
		"sets, or with acc adds to, c[i*stride+j] = sum over p < k of a[i*row+p]*b[j*width+p],",
		fmt.Sprintf("for i < %d and j < 16; k > 0 a multiple of 4.", rows))
	a := leftRows(rows)
	width, three, lower, upper := param("width"), GP64(), param("b"), GP64()
	SHLQ(Imm(2), width)
	LEAQ(Mem{Base: width, Index: width, Scale: 2}, three)
	LEAQ(Mem{Base: lower, Index: width, Scale: 8}, upper)
	b := [2]eightRows{rowsFrom(lower, width, three), rowsFrom(upper, width, three)}
	k := param("k")
	acc := avx2.zero(rows)
	r := [4]reg.VecVirtual{YMM(), YMM(), YMM(), YMM()}
	block := func(half, bytes int) {
		for i := range r {
			b[half].pair(i, bytes, r[i])
		}
		for p, t := range transpose(r) {
			for i := range acc {
				v, m := YMM(), a.row(i)
				m.Disp = bytes + 4*p
				VBROADCASTSS(m, v)
				VFMADD231PS(t, v, acc[i][half])
			}
		}
	}
	step := func(k int) {
		for half := range b {
			for at := 0; at < k; at += 4 {
				block(half, 4*at)
			}
			b[half].advance(4 * k)
		}
		a.advance(Imm(uint64(4 * k)))
	}
	inSteps(k, 16, "lines", step)
	inSteps(k, 4, "blocks", step)
	storeTile(acc, avx2.bytes)
}

// sumRows emits the sum of two matrices, row by row. Reading several rows at once would be slow: if
// their stride is a power of two, they compete for the same few cache lines.
func sumRows() {
	const rows = 16
	p := beginPack("sumRowsAVX2", "sets dst[j*width+p] = src[j*stride+p] + add[j*stride+p] for j "+
		"< 16, p < k; k > 0 a multiple of 4.", true)
	left, at := GP64(), GP64()
	ahead, addAhead := GP64(), GP64()
	LEAQ(Mem{Base: p.src, Index: p.stride, Scale: 2}, ahead)
	LEAQ(Mem{Base: p.add, Index: p.stride, Scale: 2}, addAhead)
	MOVQ(U32(rows), left)
	SHLQ(Imm(2), p.k)
	countdown("row", left, func() {
		XORQ(at, at)
		rest := GP64()
		MOVQ(p.k, rest)
		sum := func(v reg.Register) {
			PREFETCHT0(Mem{Base: ahead, Index: at, Scale: 1})
			PREFETCHT0(Mem{Base: addAhead, Index: at, Scale: 1})
			VMOVUPS(Mem{Base: p.src, Index: at, Scale: 1}, v)
			VADDPS(Mem{Base: p.add, Index: at, Scale: 1}, v, v)
			VMOVUPS(v, Mem{Base: p.dst, Index: at, Scale: 1})
		}
		inSteps(rest, 32, "eight", func(bytes int) {
			sum(YMM())
			ADDQ(Imm(uint64(bytes)), at)
		})
		inSteps(rest, 16, "four", func(bytes int) {
			sum(XMM())
			ADDQ(Imm(uint64(bytes)), at)
		})
		ADDQ(p.stride, p.src)
		ADDQ(p.stride, p.add)
		ADDQ(p.stride, ahead)
		ADDQ(p.stride, addAhead)
		ADDQ(p.width, p.dst)
	})
	leave()
}

// inSteps emits a loop that executes body(step) and subtracts step from k while k >= step.
func inSteps(k reg.GPVirtual, step int, label string, body func(k int)) {
	SUBQ(Imm(uint64(step)), k)
	JL(LabelRef(label + "_rest"))
	Label(label)
	body(step)
	SUBQ(Imm(uint64(step)), k)
	JGE(LabelRef(label))
	Label(label + "_rest")
	ADDQ(Imm(uint64(step)), k)
}
