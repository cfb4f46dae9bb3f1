package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// isa describes the instruction set of a tile kernel. A row of a tile of the product C consists of
// two vectors.
type isa struct {
	name string
	// rows is the maximum number of rows of a tile. With more rows, the accumulators, two vectors
	// of B and one of A would not fit in the registers.
	rows   int
	bytes  int // bytes in a vector
	vector func() reg.VecVirtual
}

var (
	avx2   = isa{name: "AVX2", rows: 6, bytes: 32, vector: YMM}
	avx512 = isa{name: "AVX512", rows: 12, bytes: 64, vector: ZMM}
)

const (
	unroll    = 4
	lineBytes = 64
)

func (s isa) zero(rows int) [][2]reg.VecVirtual {
	acc := make([][2]reg.VecVirtual, rows)
	for i := range acc {
		for j := range acc[i] {
			v := s.vector()
			if s.bytes == 64 {
				VPXORD(v, v, v)
			} else {
				VXORPS(v, v, v)
			}
			acc[i][j] = v
		}
	}
	return acc
}

// tile emits tileGo in assembly for a fixed number of rows, with fused multiply-adds. Each row has
// two accumulators. For each k, the code loads a row of B and broadcasts one element of every row
// of A.
func (s isa) tile(rows int) {
	name := fmt.Sprintf("tile%d%s", rows, s.name)
	function(name,
		"func(k int, a *float32, row, col int, b *float32, width int, c *float32, stride int, "+
			"acc bool)",
		fmt.Sprintf("is tileGo at rows = %d and %d columns, with fused multiply-adds; k > 0.",
			rows, s.bytes/2))
	k := param("k")
	a := leftRows(rows)
	col, b, width := param("col"), param("b"), param("width")
	SHLQ(Imm(2), col)
	SHLQ(Imm(2), width)
	prefetchTile(rows, s.bytes)

	acc := s.zero(rows)
	step := func() {
		b0, b1 := s.vector(), s.vector()
		VMOVUPS(Mem{Base: b}, b0)
		VMOVUPS(Mem{Base: b, Disp: s.bytes}, b1)
		for i := range acc {
			v := s.vector()
			VBROADCASTSS(a.row(i), v)
			VFMADD231PS(b0, v, acc[i][0])
			VFMADD231PS(b1, v, acc[i][1])
		}
		a.advance(col)
		ADDQ(width, b)
	}

	SUBQ(Imm(unroll), k)
	JL(LabelRef("rest"))
	Label("loop")
	for range unroll {
		step()
	}
	SUBQ(Imm(unroll), k)
	JGE(LabelRef("loop"))
	Label("rest")
	ADDQ(Imm(unroll), k)
	JZ(LabelRef("finish"))
	countdown("one", k, step)
	Label("finish")
	storeTile(acc, s.bytes)
}

// prefetchTile emits prefetches of the tile's cache lines in C, so that storeTile does not wait for
// them.
func prefetchTile(rows, bytes int) {
	c, stride := param("c"), param("stride")
	for i := range rows {
		for at := 0; at < 2*bytes; at += lineBytes {
			PREFETCHT0(Mem{Base: c, Disp: at})
		}
		if i < rows-1 {
			LEAQ(Mem{Base: c, Index: stride, Scale: 4}, c)
		}
	}
}

func storeTile(acc [][2]reg.VecVirtual, bytes int) {
	c, stride := param("c"), param("stride")
	SHLQ(Imm(2), stride)
	add := Load(Param("acc"), GP8())
	TESTB(add, add)
	JZ(LabelRef("store"))
	at := GP64()
	MOVQ(c, at)
	for i := range acc {
		VADDPS(Mem{Base: at}, acc[i][0], acc[i][0])
		VADDPS(Mem{Base: at, Disp: bytes}, acc[i][1], acc[i][1])
		ADDQ(stride, at)
	}
	Label("store")
	for i := range acc {
		VMOVUPS(acc[i][0], Mem{Base: c})
		VMOVUPS(acc[i][1], Mem{Base: c, Disp: bytes})
		ADDQ(stride, c)
	}
	leave()
}

// left addresses the rows of the matrix A. One pointer serves three rows.
type left struct {
	base   []reg.GPVirtual
	stride reg.GPVirtual
}

func leftRows(rows int) left {
	base := param("a")
	l := left{base: []reg.GPVirtual{base}, stride: param("row")}
	SHLQ(Imm(2), l.stride)
	for i := 3; i < rows; i += 3 {
		next := GP64()
		LEAQ(Mem{Base: base, Index: l.stride, Scale: 2}, next)
		ADDQ(l.stride, next)
		l.base, base = append(l.base, next), next
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
