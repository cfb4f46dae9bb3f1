package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const (
	peakChains = 12 // a multiply-add takes 4 cycles and two begin in each: 8 would do
	peakSteps  = 4  // of every chain in a round
)

func peak() {
	g := GLOBL("peakConstants", RODATA|NOPTR)
	DATA(0, U32(math.Float32bits(0.7310586)))
	DATA(4, U32(math.Float32bits(0.3183099)))
	peakLoop("AVX2", g, 32, func() reg.VecVirtual { return YMM() })
	peakLoop("AVX512", g, 64, func() reg.VecVirtual { return ZMM() })
}

// peakLoop keeps both multiply-add units busy: chains that do not wait for each other.
func peakLoop(name string, constants Mem, bytes int, register func() reg.VecVirtual) {
	TEXT("peak"+name, NOSPLIT, "func(rounds int, chains *float32)")
	Pragma("noescape")
	Doc("peak" + name + " is peakGo in vectors, with fused multiply-adds; rounds > 0.")
	rounds, out := Load(Param("rounds"), GP64()), Load(Param("chains"), GP64())
	factor, shift := register(), register()
	VBROADCASTSS(constants, factor)
	VBROADCASTSS(constants.Offset(4), shift)
	var chains [peakChains]reg.VecVirtual
	for i := range chains {
		chains[i] = register()
		VMOVUPS(Mem{Base: out, Disp: i * bytes}, chains[i])
	}
	Label("loop")
	for range peakSteps {
		for _, c := range chains {
			VFMADD213PS(shift, factor, c)
		}
	}
	DECQ(rounds)
	JNZ(LabelRef("loop"))
	for i, c := range chains {
		VMOVUPS(c, Mem{Base: out, Disp: i * bytes})
	}
	VZEROUPPER()
	RET()
}
