package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const packSignature = "func(dst, src *float32, stride, k int)"
const packAddSignature = "func(dst, src, add *float32, stride, k int)"

func signature(add bool) string {
	if add {
		return packAddSignature
	}
	return packSignature
}

// sixteenRows addresses 16 rows at a stride by four pointers, four rows each.
type sixteenRows struct {
	base                   [4]reg.GPVirtual
	stride, threeTimesThat reg.GPVirtual
}

func rowsOf(param string, stride, three reg.GPVirtual) sixteenRows {
	r := sixteenRows{stride: stride, threeTimesThat: three}
	r.base[0] = Load(Param(param), GP64()).(reg.GPVirtual)
	for i := 1; i < 4; i++ {
		r.base[i] = GP64()
		LEAQ(Mem{Base: r.base[i-1], Index: stride, Scale: 4}, r.base[i])
	}
	return r
}

func (r sixteenRows) row(i int) Mem {
	m := Mem{Base: r.base[i/4]}
	switch i % 4 {
	case 1, 2:
		m.Index, m.Scale = r.stride, uint8(i%4)
	case 3:
		m.Index, m.Scale = r.threeTimesThat, 1
	}
	return m
}

// pair loads four elements of rows i and i+4 into the halves of v. (The caller reuses
// v: avo takes the load of the lower half for a partial write and keeps v alive.)
func (r sixteenRows) pair(i int, v reg.VecVirtual) {
	VMOVUPS(r.row(i), v.AsX())
	VINSERTF128(Imm(1), r.row(i+4), v, v)
}

func (r sixteenRows) advance(bytes int) {
	for _, b := range r.base {
		ADDQ(Imm(uint64(bytes)), b)
	}
}

// packRows is packRowsGo for 16 rows: transposes of (8,4) blocks in registers.
func packRows(add bool) {
	name := "packRowsAVX2"
	if add {
		name = "packRowsAddAVX2"
	}
	TEXT(name, NOSPLIT, signature(add))
	Pragma("noescape")
	Doc(name + " is packRowsGo for 16 rows; k > 0 a multiple of 4.")
	stride := Load(Param("stride"), GP64()).(reg.GPVirtual)
	SHLQ(Imm(2), stride)
	three := GP64()
	LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, three)
	src, more := rowsOf("src", stride, three), sixteenRows{}
	if add {
		more = rowsOf("add", stride, three)
	}
	dst := Load(Param("dst"), GP64())
	k := Load(Param("k"), GP64())

	r, sum := [4]reg.VecVirtual{YMM(), YMM(), YMM(), YMM()}, YMM()
	Label("loop")
	for half := range 2 {
		for i := range r {
			src.pair(8*half+i, r[i])
			if add {
				more.pair(8*half+i, sum)
				VADDPS(sum, r[i], r[i])
			}
		}
		for p, v := range transpose(r) {
			VMOVUPS(v, Mem{Base: dst, Disp: p*tileBytes + 32*half})
		}
	}
	src.advance(16)
	if add {
		more.advance(16)
	}
	ADDQ(U32(4*tileBytes), dst)
	SUBQ(Imm(4), k)
	JNZ(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

// transpose transposes both halves, (4,4) each, of four registers.
func transpose(r [4]reg.VecVirtual) (t [4]reg.VecVirtual) {
	lo01, hi01, lo23, hi23 := YMM(), YMM(), YMM(), YMM()
	VUNPCKLPS(r[1], r[0], lo01)
	VUNPCKHPS(r[1], r[0], hi01)
	VUNPCKLPS(r[3], r[2], lo23)
	VUNPCKHPS(r[3], r[2], hi23)
	for i := range t {
		t[i] = YMM()
	}
	VUNPCKLPD(lo23, lo01, t[0])
	VUNPCKHPD(lo23, lo01, t[1])
	VUNPCKLPD(hi23, hi01, t[2])
	VUNPCKHPD(hi23, hi01, t[3])
	return t
}

// packCols is packColsGo for 16 columns.
func packCols(add bool) {
	name := "packColsAVX2"
	if add {
		name = "packColsAddAVX2"
	}
	TEXT(name, NOSPLIT, signature(add))
	Pragma("noescape")
	Doc(name + " is packColsGo for 16 columns; k > 0.")
	stride := Load(Param("stride"), GP64())
	SHLQ(Imm(2), stride)
	src, more := Load(Param("src"), GP64()), GP64()
	if add {
		Load(Param("add"), more)
	}
	dst := Load(Param("dst"), GP64())
	k := Load(Param("k"), GP64())

	Label("loop")
	for half := range 2 {
		v := YMM()
		VMOVUPS(Mem{Base: src, Disp: 32 * half}, v)
		if add {
			VADDPS(Mem{Base: more, Disp: 32 * half}, v, v)
		}
		VMOVUPS(v, Mem{Base: dst, Disp: 32 * half})
	}
	ADDQ(stride, src)
	if add {
		ADDQ(stride, more)
	}
	ADDQ(Imm(tileBytes), dst)
	DECQ(k)
	JNZ(LabelRef("loop"))
	VZEROUPPER()
	RET()
}
