package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// packer contains the parameters of a function that packs a panel. The function receives the
// strides and the panel's width in elements; packer converts them to bytes.
type packer struct {
	src, add, dst, stride, width, k reg.GPVirtual
}

// beginPack begins a function that packs src, or the sum of src and another matrix if the parameter
// add is true.
func beginPack(name, doc string, add bool) packer {
	params := "src"
	if add {
		params = "src, add"
	}
	function(name, "func(dst, "+params+" *float32, stride, width, k int)", doc)
	p := packer{
		src: param("src"), dst: param("dst"), stride: param("stride"), width: param("width"),
		k: param("k"),
	}
	if add {
		p.add = param("add")
	}
	SHLQ(Imm(2), p.stride)
	SHLQ(Imm(2), p.width)
	return p
}

// eightRows addresses eight rows with two pointers, four rows per pointer.
type eightRows struct {
	base                   [2]reg.GPVirtual
	stride, threeTimesThat reg.GPVirtual
}

func rowsFrom(base, stride, three reg.GPVirtual) eightRows {
	r := eightRows{base: [2]reg.GPVirtual{base, GP64()}, stride: stride, threeTimesThat: three}
	LEAQ(Mem{Base: base, Index: stride, Scale: 4}, r.base[1])
	return r
}

func (r eightRows) row(i, disp int) Mem {
	m := Mem{Base: r.base[i/4], Disp: disp}
	switch i % 4 {
	case 1, 2:
		m.Index, m.Scale = r.stride, uint8(i%4)
	case 3:
		m.Index, m.Scale = r.threeTimesThat, 1
	}
	return m
}

// pair emits loads of four elements of row i and of row i+4 into the halves of v. The load of one
// half is a partial write, so avo keeps v live before the load. To save registers, callers reuse v.
func (r eightRows) pair(i, disp int, v reg.VecVirtual) {
	VMOVUPS(r.row(i, disp), v.AsX())
	VINSERTF128(Imm(1), r.row(i+4, disp), v, v)
}

func (r eightRows) advance(bytes int) {
	for _, b := range r.base {
		ADDQ(Imm(uint64(bytes)), b)
	}
}

// packRows emits packRowsGo in assembly for 8 rows. It transposes (8,4) blocks in registers, four
// blocks at a time to fill whole cache lines. Partly filled lines would be slow, since rows at a
// stride of a power of two compete for the same few cache lines.
func packRows(add bool) {
	name := "packRowsAVX2"
	if add {
		name = "packRowsAddAVX2"
	}
	transposeRows(beginPack(name, "is packRowsGo for 8 rows; k > 0 a multiple of 4.", add), add,
		false)
}

func addTransposed() {
	doc := "is addTransposedGo for 8 rows; k > 0 a multiple of 4."
	transposeRows(beginPack("addTransposedAVX2", doc, false), false, true)
}

// transposeRows emits code that writes the transposed rows of src to dst. If add is true, it first
// adds a second matrix to src. If onto is true, it adds the result to dst instead of overwriting
// dst.
func transposeRows(p packer, add, onto bool) {
	three, threeWidths := GP64(), GP64()
	LEAQ(Mem{Base: p.stride, Index: p.stride, Scale: 2}, three)
	LEAQ(Mem{Base: p.width, Index: p.width, Scale: 2}, threeWidths)
	src, more := rowsFrom(p.src, p.stride, three), eightRows{}
	if add {
		more = rowsFrom(p.add, p.stride, three)
	}
	r, sum := [4]reg.VecVirtual{YMM(), YMM(), YMM(), YMM()}, YMM()
	block := func(disp int) {
		for i := range r {
			src.pair(i, disp, r[i])
			if add {
				more.pair(i, disp, sum)
				VADDPS(sum, r[i], r[i])
			}
		}
		t := transpose(r)
		for i, dst := range []Mem{
			{Base: p.dst}, {Base: p.dst, Index: p.width, Scale: 1},
			{Base: p.dst, Index: p.width, Scale: 2}, {Base: p.dst, Index: threeWidths, Scale: 1},
		} {
			if onto {
				VADDPS(dst, t[i], t[i])
			}
			VMOVUPS(t[i], dst)
		}
		LEAQ(Mem{Base: p.dst, Index: p.width, Scale: 4}, p.dst)
	}
	step := func(k int) {
		for at := 0; at < k; at += 4 {
			block(4 * at)
		}
		src.advance(4 * k)
		if add {
			more.advance(4 * k)
		}
	}
	inSteps(p.k, 16, "lines", step)
	inSteps(p.k, 4, "blocks", step)
	leave()
}

// transpose emits the transposition of the two (4,4) blocks in the halves of four registers. It
// overwrites the registers.
func transpose(r [4]reg.VecVirtual) [4]reg.VecVirtual {
	lo01, lo23 := YMM(), YMM()
	VUNPCKLPS(r[1], r[0], lo01)
	VUNPCKHPS(r[1], r[0], r[0])
	VUNPCKLPS(r[3], r[2], lo23)
	VUNPCKHPS(r[3], r[2], r[2])
	VUNPCKLPD(lo23, lo01, r[1])
	VUNPCKHPD(lo23, lo01, lo01)
	VUNPCKLPD(r[2], r[0], r[3])
	VUNPCKHPD(r[2], r[0], r[0])
	return [4]reg.VecVirtual{r[1], lo01, r[3], r[0]}
}

func packCols(add bool) {
	name := "packColsAVX2"
	if add {
		name = "packColsAddAVX2"
	}
	p := beginPack(name, "is packColsGo for 16 columns; k > 0.", add)
	countdown("loop", p.k, func() {
		for half := range 2 {
			v := YMM()
			VMOVUPS(Mem{Base: p.src, Disp: 32 * half}, v)
			if add {
				VADDPS(Mem{Base: p.add, Disp: 32 * half}, v, v)
			}
			VMOVUPS(v, Mem{Base: p.dst, Disp: 32 * half})
		}
		ADDQ(p.stride, p.src)
		if add {
			ADDQ(p.stride, p.add)
		}
		ADDQ(p.width, p.dst)
	})
	leave()
}

// packLeft emits a loop that copies whole vectors, although a row of dst is shorter than a vector.
// The surplus of each row is overwritten by the next row.
func packLeft(vectors int) {
	n := 8 * vectors
	name := fmt.Sprintf("packLeft%dAVX2", n)
	p := beginPack(name, fmt.Sprintf("is packLeftGo for up to %d rows; it reads and writes %[1]d "+
		"elements, of which the next k's overwrite those beyond width; k > 0.", n), false)
	countdown("loop", p.k, func() {
		for i := range vectors {
			v := YMM()
			VMOVUPS(Mem{Base: p.src, Disp: 32 * i}, v)
			VMOVUPS(v, Mem{Base: p.dst, Disp: 32 * i})
		}
		ADDQ(p.stride, p.src)
		ADDQ(p.width, p.dst)
	})
	leave()
}

func prefetch() {
	function("prefetchAVX2", "func(src *float32, lines int)",
		"asks for lines > 0 cache lines from src on.")
	src, lines := param("src"), param("lines")
	countdown("loop", lines, func() {
		PREFETCHT0(Mem{Base: src})
		ADDQ(Imm(64), src)
	})
	RET()
}
