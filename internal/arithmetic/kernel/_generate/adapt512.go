package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// adaptStrip512 is how many elements go through the stages of adapt*AVX512 together, as in
// adapt_simd.go. With fewer a stage waits for the stores of the one before: what it loads lies
// across two of them.
const adaptStrip512 = 256

// adaptation512 is what adaptAVX512 and adaptBF16AVX512 keep in registers and on their stacks.
// The stages are those of adaptAVX2, for 32 elements at a time, but that the mask is drawn in the
// stage that computes x.
type adaptation512 struct {
	holding
	gamma, beta1, beta2, out reg.VecVirtual
	state, step, mix1, mix2  reg.VecVirtual // of the generator, eight words
	last                     reg.VecVirtual // largest lane that is written
	most                     reg.VecVirtual // largest places in the grid, of a strip
	rounding                 []reg.VecVirtual
	upper                    reg.VecVirtual // where the upper halves of 32 words are

	place []Mem         // constants of the grid
	bits  Mem           // of a strip: its mask, a bit an element
	dense Mem           // of a strip: x, then out g(x), of what is written, without gaps
	count reg.GPVirtual // of those
	cell  Mem           // of those in the grid
}

// tables512 are the constants that both functions share.
type tables512 struct{ first, upper, words, place, rounding Mem }

func adapt512() {
	f := math.Float32bits
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
	t.place = scalars("adaptPlace", 1<<31-1, f(gridScale), f(1), octaves<<23-1, cells+1, 1<<cellShift-1, f(1./(1<<cellShift)))
	t.rounding = scalars("adaptRounding512", roundLane<<16|roundLane, 0xFFFF0000, 1, 1<<15-1)
	t.adapt("adaptAVX512", "adaptAVX2", "float32", false)
	t.adapt("adaptBF16AVX512", "adaptBF16AVX2", "uint16", true)
}

// scalars lays out constants.
func scalars(name string, bits ...uint32) Mem {
	g := GLOBL(name, RODATA|NOPTR)
	for i, b := range bits {
		DATA(4*i, U32(b))
	}
	return g
}

// spread fills a register each with the first n constants of a table.
func spread(table Mem, n int) (all []reg.VecVirtual) {
	for i := range n {
		v := ZMM()
		VPBROADCASTD(table.Offset(4*i), v)
		all = append(all, v)
	}
	return all
}

// broadcast512 fills a register with a scalar parameter.
func broadcast512(param string) reg.VecVirtual {
	v := ZMM()
	m, err := Param(param).Resolve()
	if err != nil {
		panic(err)
	}
	VBROADCASTSS(m.Addr, v)
	return v
}

// adapt emits the function for I and M of one type.
func (t tables512) adapt(name, narrow, held string, half bool) {
	TEXT(name, 0, "func(avg, m *"+held+", grad, scale, x, grid *float32, n int, gamma, beta1, beta2, out float32, state, last uint64) (written int, outside uint64)")
	Pragma("noescape")
	Doc(name+" is "+narrow+", but that n is a multiple of 32,", "and that strips are adaptStrip512 long.")
	a := &adaptation512{
		holding: holding{half},
		gamma:   broadcast512("gamma"), beta1: broadcast512("beta1"), beta2: broadcast512("beta2"), out: broadcast512("out"),
		state: ZMM(), step: ZMM(), mix1: ZMM(), mix2: ZMM(), last: ZMM(), most: ZMM(), upper: ZMM(),
		rounding: spread(t.rounding, 4),
		bits:     AllocLocal(adaptStrip512 / 8), dense: AllocLocal(4 * (adaptStrip512 + 16)), cell: AllocLocal(4 * (adaptStrip512 + 16)),
		count: GP64(),
	}
	for i := range 7 {
		a.place = append(a.place, t.place.Offset(4*i))
	}
	a.seed(t)
	written, outside := AllocLocal(8), AllocLocal(8)
	MOVQ(U32(0), written)
	MOVQ(U32(0), outside)
	start := GP64()
	XORQ(start, start)

	end := beginStrip(start, adaptStrip512)
	XORQ(a.count, a.count)
	stage("input", 32, start, end, a.input())
	zero := ZMM()
	VPXORD(zero, zero, zero)
	VMOVDQU32(zero, a.dense.Idx(a.count, 4))
	ADDQ(a.count, written)
	VPXORD(a.most, a.most, a.most)
	a.locate()
	a.note(outside, start)
	a.lookUp()
	XORQ(a.count, a.count)
	stage("write", 32, start, end, a.write())
	endStrip(start, end)
	giveBack(written, outside)
}

// seed spreads the generator's state over the next eight words.
func (a *adaptation512) seed(t tables512) {
	VPBROADCASTW(Load(Param("last"), GP64()).(reg.GPVirtual).As32(), a.last)
	VPBROADCASTQ(Load(Param("state"), GP64()), a.state)
	VPADDQ(t.first, a.state, a.state)
	VPBROADCASTQ(t.words, a.step)
	VPBROADCASTQ(t.words.Offset(8), a.mix1)
	VPBROADCASTQ(t.words.Offset(16), a.mix2)
	VMOVDQU64(t.upper, a.upper)
}

// ahead512 asks for what 32 elements of so many bytes each lie in, ahead of a pointer.
func ahead512(at, p reg.Register, bytes int) {
	for line := 0; line < 32*bytes; line += lineBytes {
		PREFETCHT0(Mem{Base: p, Index: at, Scale: 1, Disp: adaptAhead + line})
	}
}

// draw makes the next 32 lanes.
func (a *adaptation512) draw() (lanes reg.VecVirtual) {
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

// input draws the mask, moves I, computes x, and keeps it where it is written.
func (a *adaptation512) input() func(at, mask reg.GPVirtual) {
	avg, grad, scale, trace := pointer("avg"), pointer("grad"), pointer("scale"), pointer("x")
	return func(at, mask reg.GPVirtual) {
		ahead512(at, grad, 4)
		held := a.held(at)
		ahead512(held, avg, a.heldBytes())
		lanes := a.draw()
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
			here := func(base reg.Register) Mem { return Mem{Base: base, Index: at, Scale: 1, Disp: 64 * k} }
			g, x, t := ZMM(), ZMM(), ZMM()
			VMOVUPS(here(grad), g)
			if a.half {
				sums[k] = a.averageBF16(Mem{Base: avg, Index: held, Scale: 1, Disp: 32 * k}, round[k], g, x)
			} else {
				VMULPS(here(avg), a.gamma, x)
				VMULPS(g, a.beta1, t)
				VADDPS(t, x, x)
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
				VMOVUPS_Z(x, number, t) // 0 for NaN
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

// counted adds how many of the k'th 16 bits are set.
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

// roundings makes the random numbers that twice 16 elements of I are rounded by.
func (a *adaptation512) roundings(lanes reg.VecVirtual) [2]reg.VecVirtual {
	all, above, lo, hi := ZMM(), YMM(), ZMM(), ZMM()
	VPMULLW(a.rounding[0], lanes, all)
	VPMOVZXWD(all.AsY(), lo)
	VEXTRACTI64X4(Imm(1), all, above)
	VPMOVZXWD(above, hi)
	return [2]reg.VecVirtual{lo, hi}
}

// averageBF16 computes 16 elements of I in bfloat16: as the upper halves of words, and in x.
func (a *adaptation512) averageBF16(avg Mem, round, g, x reg.VecVirtual) (sum reg.VecVirtual) {
	t := ZMM()
	VPMOVZXWD(avg, x)
	VPSLLD(Imm(16), x, x)
	VMULPS(x, a.gamma, x)
	VMULPS(g, a.beta1, t)
	VADDPS(t, x, x)
	VPADDD(round, x, t)
	keepNaN512(x, t)
	VPANDD(a.rounding[1], t, x)
	return t
}

// keepNaN512 replaces rounded, the sum of x's bits and something, by x where that is NaN.
func keepNaN512(x, rounded reg.VecVirtual) {
	const unordered = 3
	nan := K()
	VCMPPS(Imm(unordered), x, x, nan)
	VMOVAPS(x, nan, rounded)
}

// locate finds the cells of the dense x, and replaces x by the place in the cell. Where
// the grid ends it stays in the last one.
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

// lookUp replaces the places by out g(x), in bfloat16 by the words that its halves are the
// upper halves of.
func (a *adaptation512) lookUp() {
	grid := pointer("grid")
	a.eachDense("look", func(at reg.GPVirtual) {
		v, next := a.points(grid, at)
		VSUBPS(v, next, next)
		VMULPS(a.dense.Idx(at, 4), next, next)
		VADDPS(next, v, v)
		VMULPS(v, a.out, v)
		if a.half {
			odd, most, t := a.rounding[2], a.rounding[3], ZMM()
			VPSRLD(Imm(16), v, t)
			VPANDD(odd, t, t)
			VPADDD(most, t, t)
			VPADDD(t, v, t)
			keepNaN512(v, t)
			v = t
		}
		VMOVUPS(v, a.dense.Idx(at, 4))
	})
}

// eachDense emits a loop over the dense elements, 16 at a time.
func (a *adaptation512) eachDense(name string, body func(at reg.GPVirtual)) {
	at := GP64()
	XORQ(at, at)
	Label(name)
	body(at)
	ADDQ(Imm(16), at)
	CMPQ(at, a.count)
	JL(LabelRef(name))
}

// points loads the grid points on both sides of 16 cells. They lie side by side,
// so that one load fetches two; a gather instruction would take longer.
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
	even, odd := joined(pairs[0], pairs[2], pairs[4], pairs[6]), joined(pairs[1], pairs[3], pairs[5], pairs[7])
	v, next = ZMM(), ZMM()
	VSHUFPS(Imm(0x88), odd, even, v)
	VSHUFPS(Imm(0xDD), odd, even, next)
	return v, next
}

// joined puts four quarters together.
func joined(a, b, c, d reg.VecVirtual) reg.VecVirtual {
	lo, hi, all := YMM(), YMM(), ZMM()
	VINSERTF32X4(Imm(1), b, a.AsY(), lo)
	VINSERTF32X4(Imm(1), d, c.AsY(), hi)
	VINSERTF64X4(Imm(1), hi, lo.AsZ(), all)
	return all
}

// note sets the bit of the strip that begins at start if a place was at the grid's end or beyond.
func (a *adaptation512) note(outside Mem, start reg.GPVirtual) {
	const above = 6
	beyond := K()
	VPCMPUD_BCST(Imm(above), a.place[3], a.most, beyond)
	KORTESTW(beyond, beyond)
	JZ(LabelRef("inside"))
	strip, bits := GP64(), GP64()
	MOVQ(start, strip)
	SHRQ(Imm(10), strip) // 4 adaptStrip512 is 2^10
	MOVQ(outside, bits)
	BTSQ(strip, bits)
	MOVQ(bits, outside)
	Label("inside")
}

// write replaces M where the mask is on.
func (a *adaptation512) write() func(at, mask reg.GPVirtual) {
	fast := pointer("m")
	return func(at, mask reg.GPVirtual) {
		at = a.held(at)
		ahead512(at, fast, a.heldBytes())
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
