package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const bf16Pairs = 16 // pairs in a line of a tile; a tile has as many lines

func bf16() {
	pairsAlong(false)
	pairsAlong(true)
	pairsAcross(false)
	pairsAcross(true)
	transposeTile()
	regroupLeft()
	regroupRight()
}

// rounder rounds eight floats to bfloat16. The result is in the upper half of each lane.
type rounder struct{ one, half, quiet reg.VecVirtual }

func newRounder() rounder {
	r := rounder{YMM(), YMM(), YMM()}
	VPCMPEQD(r.one, r.one, r.one)
	VPSRLD(Imm(17), r.one, r.half) // 0x7fff
	VPSRLD(Imm(31), r.one, r.one)
	VPSLLD(Imm(22), r.one, r.quiet)
	return r
}

// load loads eight floats, adds the floats at add unless add is nil, and rounds the sums.
func (r rounder) load(at Mem, add *Mem) reg.VecVirtual {
	x, even, nan := YMM(), YMM(), YMM()
	VMOVUPS(at, x)
	if add != nil {
		VADDPS(*add, x, x)
	}
	VCMPPS(Imm(3), x, x, nan)
	VPSRLD(Imm(16), x, even)
	VPAND(r.one, even, even)
	VPADDD(r.half, even, even)
	VPADDD(x, even, even)
	VPOR(r.quiet, x, x)
	VBLENDVPS(nan, x, even, x)
	return x
}

// operand holds the addresses of an operand to pack.
type operand struct {
	src, add, stride reg.GPVirtual
	adds             bool
}

func newOperand(add bool) operand {
	o := operand{src: param("src"), adds: add}
	if add {
		o.add = param("add")
	}
	o.stride = param("stride")
	SHLQ(Imm(2), o.stride)
	return o
}

// load loads eight floats at a byte offset in the current row, or in the next row, and rounds them.
func (o operand) load(r rounder, bytes int, next bool) reg.VecVirtual {
	at := func(base reg.Register) Mem {
		m := Mem{Base: base, Disp: bytes}
		if next {
			m.Index, m.Scale = o.stride, 1
		}
		return m
	}
	if !o.adds {
		return r.load(at(o.src), nil)
	}
	more := at(o.add)
	return r.load(at(o.src), &more)
}

func (o operand) advance(rows uint8) {
	LEAQ(Mem{Base: o.src, Index: o.stride, Scale: rows}, o.src)
	if o.adds {
		LEAQ(Mem{Base: o.add, Index: o.stride, Scale: rows}, o.add)
	}
}

func pairsText(name string, add bool, further, doc string) {
	params := "src *float32"
	if add {
		name, params = name+"Add", "src, add *float32"
	}
	function(name+"AVX2", "func(dst *uint32, "+params+", stride"+further+" int)", "is "+doc)
}

// pairsAlong emits pairsAlongGo for 32 k's in each line.
func pairsAlong(add bool) {
	pairsText("pairsAlong", add, ", n", "pairsAlongGo for k = 32; n > 0.")
	dst := param("dst")
	src := newOperand(add)
	n := param("n")
	round := newRounder()

	countdown("loop", n, func() {
		for half := range 2 {
			lo, hi := src.load(round, 64*half, false), src.load(round, 64*half+32, false)
			VPSRLD(Imm(16), lo, lo)
			VPSRLD(Imm(16), hi, hi)
			VPACKUSDW(hi, lo, lo) // now the order of the k's is 0-3, 8-11, 4-7, 12-15
			VPERMQ(Imm(0b11_01_10_00), lo, lo)
			VMOVDQU(lo, Mem{Base: dst, Disp: 32 * half})
		}
		src.advance(1)
		ADDQ(Imm(4*bf16Pairs), dst)
	})
	leave()
}

// pairsAcross emits pairsAcrossGo for 32 k's and 16 lines.
func pairsAcross(add bool) {
	pairsText("pairsAcross", add, "", "pairsAcrossGo for n = 16 and k = 32.")
	dst := param("dst")
	src := newOperand(add)
	p := GP64()
	MOVQ(U32(bf16Pairs), p)
	round := newRounder()

	countdown("loop", p, func() {
		for half := range 2 {
			even, odd := src.load(round, 32*half, false), src.load(round, 32*half, true)
			VPSRLD(Imm(16), even, even)
			VPBLENDW(Imm(0b10101010), odd, even, even)
			VMOVDQU(even, Mem{Base: dst, Disp: 32 * half})
		}
		src.advance(2)
		ADDQ(Imm(4*bf16Pairs), dst)
	})
	leave()
}

// transposeTile emits transposeTileGo, for eight rows and four columns at a time.
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

// regroupLeft emits regroupGo for a tile of A: it turns four halves 0 1 2 3 into 2 0 3 1.
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

// regroupRight emits regroupGo for a tile of B, in which a row has the pairs of two k's.
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
