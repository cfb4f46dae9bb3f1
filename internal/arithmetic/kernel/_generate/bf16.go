package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const bf16Pairs = 16 // pairs per row of a tile, and rows per tile

func bf16() {
	transposeTile()
	regroupLeft()
	regroupRight()
}

// transposeTile emits transposeTileGo in assembly. It transposes blocks of eight rows and four
// columns.
func transposeTile() {
	const row = 4 * bf16Pairs
	function("transposeTileAVX2", "func(dst, src *uint32)", "is transposeTileGo.")
	dst, src := param("dst"), param("src")
	r := [4]reg.VecVirtual{YMM(), YMM(), YMM(), YMM()}
	for from := 0; from < bf16Pairs; from += 8 {
		for col := 0; col < bf16Pairs; col += 4 {
			for i := range r {
				VMOVUPS(Mem{Base: src, Disp: (from+i)*row + 4*col}, r[i].AsX())
				VINSERTF128(Imm(1), Mem{Base: src, Disp: (from+i+4)*row + 4*col}, r[i], r[i])
			}
			for i, v := range transpose(r) {
				VMOVUPS(v, Mem{Base: dst, Disp: (col+i)*row + 4*from})
			}
		}
	}
	leave()
}

// regroupLeft emits regroupGo in assembly for a tile of the matrix A. It reorders every four 16-bit
// elements 0 1 2 3 as 2 0 3 1.
func regroupLeft() {
	function("regroupLeftAVX2", "func(tile *uint32)", "is regroupGo for a tile of A.")
	tile := param("tile")
	const order = 0b01_11_00_10
	for at := 0; at < 4*bf16Pairs*bf16Pairs; at += 32 {
		x := YMM()
		VPSHUFLW(Imm(order), Mem{Base: tile, Disp: at}, x)
		VPSHUFHW(Imm(order), x, x)
		VMOVDQU(x, Mem{Base: tile, Disp: at})
	}
	leave()
}

// regroupRight emits regroupGo in assembly for a tile of the matrix B. The function exchanges
// halves of words between two neighboring rows.
func regroupRight() {
	function("regroupRightAVX2", "func(tile *uint32)", "is regroupGo for a tile of B.")
	tile := param("tile")
	const row = 4 * bf16Pairs
	for at := 0; at < bf16Pairs*row; at += 2 * row {
		for half := 0; half < row; half += 32 {
			first, second := Mem{Base: tile, Disp: at + half},
				Mem{Base: tile, Disp: at + row + half}
			x, y, even, odd := YMM(), YMM(), YMM(), YMM()
			VMOVDQU(first, x)
			VMOVDQU(second, y)
			VPSLLD(Imm(16), x, even)
			VPBLENDW(Imm(0b01010101), y, even, even)
			VPSRLD(Imm(16), y, odd)
			VPBLENDW(Imm(0b10101010), x, odd, odd)
			VMOVDQU(even, first)
			VMOVDQU(odd, second)
		}
	}
	leave()
}
