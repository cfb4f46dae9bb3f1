package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const (
	// At least 8 are needed: the latency is 4 cycles, and 2 multiply-adds start per cycle.
	peakChains = 12
	peakSteps  = 4 // multiply-adds per chain in one iteration
)

func peak() {
	g := GLOBL("peakConstants", RODATA|NOPTR)
	DATA(0, U32(math.Float32bits(0.7310586)))
	DATA(4, U32(math.Float32bits(0.3183099)))
	avx2.peak(g)
	avx512.peak(g)
}

// peak emits independent chains of multiply-adds that keep both multiply-add units busy.
func (s isa) peak(constants Mem) {
	function("peak"+s.name, "func(rounds int, chains *float32)",
		"is peakGo in vectors, with fused multiply-adds; rounds > 0.")
	rounds, out := param("rounds"), param("chains")
	factor, shift := s.vector(), s.vector()
	VBROADCASTSS(constants, factor)
	VBROADCASTSS(constants.Offset(4), shift)
	var chains [peakChains]reg.VecVirtual
	for i := range chains {
		chains[i] = s.vector()
		VMOVUPS(Mem{Base: out, Disp: i * s.bytes}, chains[i])
	}
	countdown("loop", rounds, func() {
		for range peakSteps {
			for _, c := range chains {
				VFMADD213PS(shift, factor, c)
			}
		}
	})
	for i, c := range chains {
		VMOVUPS(c, Mem{Base: out, Disp: i * s.bytes})
	}
	leave()
}
