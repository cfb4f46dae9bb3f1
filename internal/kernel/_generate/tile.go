package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const (
	tileRows  = 6  // 12 accumulators, 2 registers of B and 2 of A: all 16
	tileBytes = 64 // a row of 16 columns
	unroll    = 4
)

// tile is the micro-kernel for a fixed number of rows: tileGo with fused
// multiply-adds. Two accumulators a row; each k loads a row of the packed panel and
// broadcasts one element of every row of A.
func tile(rows int) {
	TEXT(fmt.Sprintf("tile%dAVX2", rows), NOSPLIT, "func(k int, a *float32, row, col int, b, c *float32, stride int, acc bool)")
	Pragma("noescape")
	Doc(fmt.Sprintf("tile%dAVX2 is tileGo at rows = %d, with fused multiply-adds; k > 0.", rows, rows))
	k := Load(Param("k"), GP64())
	a := leftRows(rows)
	col := Load(Param("col"), GP64())
	b := Load(Param("b"), GP64())
	SHLQ(Imm(2), col)
	prefetchTile(rows)

	acc := make([][2]reg.VecVirtual, rows)
	for i := range acc {
		acc[i] = [2]reg.VecVirtual{YMM(), YMM()}
		VXORPS(acc[i][0], acc[i][0], acc[i][0])
		VXORPS(acc[i][1], acc[i][1], acc[i][1])
	}
	step := func(u int) {
		b0, b1 := YMM(), YMM()
		VMOVUPS(Mem{Base: b, Disp: u * tileBytes}, b0)
		VMOVUPS(Mem{Base: b, Disp: u*tileBytes + 32}, b1)
		for i := range acc {
			v := YMM()
			VBROADCASTSS(a.row(i), v)
			VFMADD231PS(b0, v, acc[i][0])
			VFMADD231PS(b1, v, acc[i][1])
		}
		a.advance(col)
	}

	SUBQ(Imm(unroll), k)
	JL(LabelRef("rest"))
	Label("loop")
	for u := range unroll {
		step(u)
	}
	ADDQ(U32(unroll*tileBytes), b)
	SUBQ(Imm(unroll), k)
	JGE(LabelRef("loop"))
	Label("rest")
	ADDQ(Imm(unroll), k)
	JZ(LabelRef("finish"))
	Label("one")
	step(0)
	ADDQ(Imm(tileBytes), b)
	DECQ(k)
	JNZ(LabelRef("one"))
	Label("finish")
	storeTile(acc)
}

// prefetchTile asks for the tile's place in C, so that storeTile need not wait for it.
func prefetchTile(rows int) {
	c := Load(Param("c"), GP64())
	stride := Load(Param("stride"), GP64())
	for i := range rows {
		PREFETCHT0(Mem{Base: c})
		if i < rows-1 {
			LEAQ(Mem{Base: c, Index: stride, Scale: 4}, c)
		}
	}
}

// storeTile stores the accumulators in C, or adds them to it.
func storeTile(acc [][2]reg.VecVirtual) {
	c := Load(Param("c"), GP64())
	stride := Load(Param("stride"), GP64())
	SHLQ(Imm(2), stride)
	add := Load(Param("acc"), GP8())
	TESTB(add, add)
	JZ(LabelRef("store"))
	at := GP64()
	MOVQ(c, at)
	for i := range acc {
		VADDPS(Mem{Base: at}, acc[i][0], acc[i][0])
		VADDPS(Mem{Base: at, Disp: 32}, acc[i][1], acc[i][1])
		ADDQ(stride, at)
	}
	Label("store")
	for i := range acc {
		VMOVUPS(acc[i][0], Mem{Base: c})
		VMOVUPS(acc[i][1], Mem{Base: c, Disp: 32})
		ADDQ(stride, c)
	}
	VZEROUPPER()
	RET()
}

// left addresses the rows of A: rows 0-2 from one pointer, 3-5 from a second.
type left struct {
	base   []reg.GPVirtual
	stride reg.GPVirtual
}

func leftRows(rows int) left {
	base := Load(Param("a"), GP64()).(reg.GPVirtual)
	l := left{base: []reg.GPVirtual{base}, stride: Load(Param("row"), GP64()).(reg.GPVirtual)}
	SHLQ(Imm(2), l.stride)
	if rows > 3 {
		second := GP64()
		LEAQ(Mem{Base: base, Index: l.stride, Scale: 2}, second)
		ADDQ(l.stride, second)
		l.base = append(l.base, second)
	}
	return l
}

func (l left) row(i int) Mem {
	m := Mem{Base: l.base[i/3]}
	if s := i % 3; s > 0 {
		m.Index, m.Scale = l.stride, uint8(s)
	}
	return m
}

func (l left) advance(by Op) {
	for _, b := range l.base {
		ADDQ(by, b)
	}
}
