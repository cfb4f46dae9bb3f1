package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// adaptStrip512 is the number of elements in a strip with AVX-512. It must equal the constant in
// adapt_simd.go. With a shorter strip, a stage would wait for the previous stage's stores, since
// each load spans two of these stores.
const adaptStrip512 = 256

// adaptation512 contains the registers and stack slots of adaptAVX512 and adaptBF16AVX512. The
// method input also draws the mask.
type adaptation512 struct {
	adaptation
	step, mix1, mix2 reg.VecVirtual
	last             reg.VecVirtual // maximum random lane that selects an element
	rounding         []reg.VecVirtual
	upper            reg.VecVirtual // permutation that extracts the upper half of each 32-bit lane
}

type tables512 struct{ first, upper, words, place, rounding Mem }

func adapt512() {
	t := tables512{
		first: GLOBL("adaptFirst512", RODATA|NOPTR),
	}
	for word := range 8 {
		DATA(8*word, U64(uint64(word)*golden&(1<<64-1)))
	}
	t.upper = GLOBL("adaptUpper", RODATA|NOPTR)
	for half := range 32 {
		DATA(2*half, U16(2*half+1))
	}
	t.words = GLOBL("adaptWords512", RODATA|NOPTR)
	for i, w := range []uint64{golden * 8 & (1<<64 - 1), mix1, mix2} {
		DATA(8*i, U64(w))
	}
	t.place = scalars("adaptPlace", adaptPlaces...)
	t.rounding = scalars("adaptRounding512", roundLane<<16|roundLane, 0xFFFF0000, 1, 1<<15-1)
	t.adapt("adaptAVX512", "adaptAVX2", false)
	t.adapt("adaptBF16AVX512", "adaptBF16AVX2", true)
}

func scalars(name string, bits ...uint32) Mem {
	g := GLOBL(name, RODATA|NOPTR)
	for i, b := range bits {
		DATA(4*i, U32(b))
	}
	return g
}

func spread(table Mem, n int) (all []reg.VecVirtual) {
	for i := range n {
		v := ZMM()
		VPBROADCASTD(table.Offset(4*i), v)
		all = append(all, v)
	}
	return all
}

// adapt emits the AVX-512 function. If half is true, gradient averages and fast weights are
// bfloat16, else float32.
func (t tables512) adapt(name, narrow string, half bool) {
	beginAdapt(name, half, name+" is "+narrow+", but that n is a multiple of 32,",
		"and that strips are adaptStrip512 long.")
	places := make([]Mem, len(adaptPlaces))
	for i := range places {
		places[i] = t.place.Offset(4 * i)
	}
	a := &adaptation512{
		adaptation: newAdaptation(avx512, adaptStrip512, half, places),
		step:       ZMM(), mix1: ZMM(), mix2: ZMM(), last: ZMM(),
	}
	a.most, a.upper, a.rounding = ZMM(), ZMM(), spread(t.rounding, 4)
	a.odd, a.below = a.rounding[2], a.rounding[3]
	a.seed(t)
	a.emit(a)
}

// seed emits code that loads the states of the random generator for the next eight words.
func (a *adaptation512) seed(t tables512) {
	VPBROADCASTW(Load(Param("last"), GP64()).(reg.GPVirtual).As32(), a.last)
	VPBROADCASTQ(Load(Param("state"), GP64()), a.state)
	VPADDQ(t.first, a.state, a.state)
	VPBROADCASTQ(t.words, a.step)
	VPBROADCASTQ(t.words.Offset(8), a.mix1)
	VPBROADCASTQ(t.words.Offset(16), a.mix2)
	VMOVDQU64(t.upper, a.upper)
}

// heldBytes returns the size in bytes of a gradient average or of a fast weight.
func (a *adaptation512) heldBytes() int {
	if a.half {
		return 2
	}
	return 4
}

// draw emits nothing, since the stage input draws the masks.
func (a *adaptation512) draw(_, _ reg.GPVirtual) {}

// lanes emits code that draws the random 16-bit lanes of the next 32 elements.
func (a *adaptation512) lanes() (lanes reg.VecVirtual) {
	z, t := ZMM(), ZMM()
	VPSRLQ(Imm(30), a.state, t)
	VPXORQ(t, a.state, z)
	VPADDQ(a.step, a.state, a.state)
	VPMULLQ(a.mix1, z, z)
	VPSRLQ(Imm(27), z, t)
	VPXORQ(t, z, z)
	VPMULLQ(a.mix2, z, z)
	VPSRLQ(Imm(31), z, t)
	VPXORQ(t, z, z)
	return z
}

// input emits the stage that draws the mask, updates the gradient averages, computes x, and stores
// the x of selected elements in dense.
func (a *adaptation512) input() func(at, mask reg.GPVirtual) {
	avg, grad, scale, trace := param("avg"), param("grad"), param("scale"), param("x")
	return func(at, mask reg.GPVirtual) {
		a.ahead(at, grad, 32*4)
		held := a.held(at)
		a.ahead(held, avg, 32*a.heldBytes())
		lanes := a.lanes()
		const notAbove = 2
		on, bits := [2]reg.Register{K(), K()}, GP32()
		VPCMPUW(Imm(notAbove), a.last, lanes, on[0])
		KMOVD(on[0], bits)
		MOVL(bits, a.bits.Idx(mask, 1))
		KSHIFTRD(Imm(16), on[0], on[1])
		var round, sums [2]reg.VecVirtual
		if a.half {
			round = a.roundings(lanes)
		}
		for k := range 2 {
			here := func(base reg.Register) Mem {
				return Mem{Base: base, Index: at, Scale: 1,
					Disp: 64 * k}
			}
			g, x, t := ZMM(), ZMM(), ZMM()
			VMOVUPS(here(grad), g)
			if a.half {
				sums[k] = a.averageBF16(Mem{Base: avg, Index: held, Scale: 1, Disp: 32 * k},
					round[k], g, x)
			} else {
				a.average(here(avg), g, x, t)
				VMOVUPS(x, here(avg))
			}
			VMULPS(g, a.beta2, t)
			VADDPS(t, x, x)
			unless(scale, "unscaled", k, func() { VMULPS(here(scale), x, x) })
			VCOMPRESSPS_Z(x, on[k], t)
			VMOVUPS(t, a.dense.Idx(a.count, 4))
			unless(trace, "untraced", k, func() {
				const ordered = 7
				number := K()
				VCMPPS(Imm(ordered), x, x, number)
				VMOVUPS_Z(x, number, t) // `number` is 0 for NaN, so that a NaN becomes 0
				VMOVUPS(t, on[k], here(trace))
			})
			a.counted(bits, k)
		}
		if a.half {
			VPERMT2W(sums[1], a.upper, sums[0])
			VMOVDQU16(sums[0], index(avg, held))
		}
	}
}

// counted emits code that adds the number of set bits in the k-th group of 16 bits to a.count.
func (a *adaptation512) counted(bits reg.GPVirtual, k int) {
	n := GP32()
	if k == 0 {
		MOVWLZX(bits.As16(), n)
	} else {
		MOVL(bits, n)
		SHRL(Imm(16), n)
	}
	POPCNTL(n, n)
	ADDQ(n.As64(), a.count)
}

// roundings emits code that computes the random numbers for rounding two vectors of 16 gradient
// averages.
func (a *adaptation512) roundings(lanes reg.VecVirtual) [2]reg.VecVirtual {
	all, above, lo, hi := ZMM(), YMM(), ZMM(), ZMM()
	VPMULLW(a.rounding[0], lanes, all)
	VPMOVZXWD(all.AsY(), lo)
	VEXTRACTI64X4(Imm(1), all, above)
	VPMOVZXWD(above, hi)
	return [2]reg.VecVirtual{lo, hi}
}

// averageBF16 emits the update of 16 gradient averages in bfloat16. It returns the results in the
// upper halves of 32-bit lanes, and as float32 in x.
func (a *adaptation512) averageBF16(avg Mem, round, g, x reg.VecVirtual) (sum reg.VecVirtual) {
	t := ZMM()
	a.averageHalves(avg, g, x, t)
	VPADDD(round, x, t)
	a.keepNaN(x, t)
	VPANDD(a.rounding[1], t, x)
	return t
}

// locate emits the stage that finds the grid cell of each x in dense, and replaces x by its
// position in the cell. An x outside the grid gets the last cell.
func (a *adaptation512) locate() {
	c := a.place
	magnitude, toZ, one, last, below, inCell, perCell := c[0], c[1], c[2], c[3], c[4], c[5], c[6]
	a.eachDense("locate", func(at reg.GPVirtual) {
		x, z, t, negative := ZMM(), ZMM(), ZMM(), K()
		VMOVUPS(a.dense.Idx(at, 4), x)
		VPANDD_BCST(magnitude, x, z)
		VMULPS_BCST(toZ, z, z)
		VADDPS_BCST(one, z, z)
		VPSUBD_BCST(one, z, z)
		VPMAXUD(z, a.most, a.most)
		VPMINUD_BCST(last, z, z)
		VPSRLD(Imm(cellShift), z, t)
		VPMOVD2M(x, negative)
		VPADDD_BCST(below, t, negative, t)
		VMOVDQU32(t, a.cell.Idx(at, 4))
		VPANDD_BCST(inCell, z, z)
		VCVTDQ2PS(z, z)
		VMULPS_BCST(perCell, z, z)
		VMOVUPS(z, a.dense.Idx(at, 4))
	})
}

// points emits code that loads the grid points on both sides of 16 cells. The two points of a cell
// are adjacent, so one load fetches both. A gather instruction would be slower.
func (a *adaptation512) points(grid reg.Register, at reg.GPVirtual) (v, next reg.VecVirtual) {
	var pairs [8]reg.VecVirtual
	for p := range pairs {
		lo, hi := GP32(), GP32()
		MOVL(a.cell.Idx(at, 4).Offset(8*p), lo)
		MOVL(a.cell.Idx(at, 4).Offset(8*p+4), hi)
		pairs[p] = XMM()
		VMOVSD(Mem{Base: grid, Index: lo.As64(), Scale: 4}, pairs[p])
		VMOVHPS(Mem{Base: grid, Index: hi.As64(), Scale: 4}, pairs[p], pairs[p])
	}
	even, odd := joined(pairs[0], pairs[2], pairs[4], pairs[6]), joined(pairs[1], pairs[3],
		pairs[5], pairs[7])
	return a.parted(even, odd)
}

func joined(a, b, c, d reg.VecVirtual) reg.VecVirtual {
	lo, hi, all := YMM(), YMM(), ZMM()
	VINSERTF32X4(Imm(1), b, a.AsY(), lo)
	VINSERTF32X4(Imm(1), d, c.AsY(), hi)
	VINSERTF64X4(Imm(1), hi, lo.AsZ(), all)
	return all
}

func (a *adaptation512) inside() {
	const above = 6
	beyond := K()
	VPCMPUD_BCST(Imm(above), a.place[3], a.most, beyond)
	KORTESTW(beyond, beyond)
	JZ(LabelRef("inside"))
}

// write emits the stage that replaces the selected fast weights.
func (a *adaptation512) write() func(at, mask reg.GPVirtual) {
	fast := param("m")
	return func(at, mask reg.GPVirtual) {
		at = a.held(at)
		a.ahead(at, fast, 32*a.heldBytes())
		on, bits := [2]reg.Register{K(), K()}, GP32()
		MOVL(a.bits.Idx(mask, 1), bits)
		KMOVD(bits, on[0])
		KSHIFTRD(Imm(16), on[0], on[1])
		var values [2]reg.VecVirtual
		for k := range 2 {
			dense, m := ZMM(), ZMM()
			VMOVUPS(a.dense.Idx(a.count, 4), dense)
			if a.half {
				VEXPANDPS_Z(dense, on[k], m)
			} else {
				here := Mem{Base: fast, Index: at, Scale: 1, Disp: 64 * k}
				VMOVUPS(here, m)
				VEXPANDPS(dense, on[k], m)
				VMOVUPS(m, here)
			}
			values[k] = m
			a.counted(bits, k)
		}
		if a.half {
			before := ZMM()
			VMOVDQU16(index(fast, at), before)
			VPERMT2W(values[1], a.upper, values[0])
			VPBLENDMW(values[0], before, on[0], before)
			VMOVDQU16(before, index(fast, at))
		}
	}
}
