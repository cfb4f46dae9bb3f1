package main

import (
	"encoding/binary"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// adaptStrip is the number of elements in a strip with AVX2. It must equal the constant in
// adapt_simd.go.
const adaptStrip = 128

type adaptation256 struct {
	adaptation
	adaptTables
	last    Mem // maximum random lane that selects an element
	rounded Mem
}

type adaptTables struct {
	first, words, places, rounding []Mem
	// pack and unpack are tables of permutations, indexed by eight bits of the mask. pack moves
	// selected elements together; unpack moves them back.
	pack, unpack Mem
}

func adapt256() {
	pack, unpack := packings()
	t := adaptTables{
		first: words("adaptFirst", [4]uint64{0, golden, golden * 2 & (1<<64 - 1),
			golden * 3 & (1<<64 - 1)}),
		words: words("adaptWords", every(golden*4&(1<<64-1)), every(mix1), every(mix1>>32),
			every(mix2), every(mix2>>32)),
		places:   constants("adaptConstants", adaptPlaces...),
		rounding: constants("adaptRounding", roundLane<<16|roundLane, 1, 1<<15-1),
		pack:     pack, unpack: unpack,
	}
	t.adapt("adaptAVX2", false)
	t.adapt("adaptBF16AVX2", true)
}

// adapt emits the AVX2 function. If half is true, gradient averages and fast weights are bfloat16,
// else float32.
func (t adaptTables) adapt(name string, half bool) {
	beginAdapt(name, half,
		name+" is the portable stages of Adaptation, but for what lies outside of the grid.",
		"n is a multiple of 16, above 0 and at most adaptRun; state is that of the generator at",
		"the first element, last the largest lane that is written. Bit s of outside is set if",
		"elements of strip s, which is adaptStrip long, are written and were not in the grid.")
	a := &adaptation256{adaptTables: t, last: AllocLocal(32)}
	a.adaptation = newAdaptation(avx2, adaptStrip, half, t.places)
	a.most, a.odd, a.below = YMM(), t.rounding[1], t.rounding[2]
	if half {
		a.rounded = AllocLocal(2 * adaptStrip)
	}
	a.seed()
	a.emit(a)
}

// seed emits code that loads the states of the random generator for the next four words.
func (a *adaptation256) seed() {
	x, all := XMM(), YMM()
	VMOVQ(Load(Param("last"), GP64()), x)
	VPBROADCASTW(x, all)
	VMOVDQU(all, a.last)
	x = XMM()
	VMOVQ(Load(Param("state"), GP64()), x)
	VPBROADCASTQ(x, a.state)
	VPADDQ(a.first[0], a.state, a.state)
}

func (a *adaptation256) draw(start, end reg.GPVirtual) {
	c, avg := a.words, param("avg")
	a.stage("draw", start, end, func(at, mask reg.GPVirtual) {
		a.ahead(a.held(at), avg, lineBytes)
		z, t, bits := YMM(), YMM(), GP32()
		VPSRLQ(Imm(30), a.state, t)
		VPXOR(t, a.state, z)
		VPADDQ(c[0], a.state, a.state)
		times(z, c[1], c[2])
		VPSRLQ(Imm(27), z, t)
		VPXOR(t, z, z)
		times(z, c[3], c[4])
		VPSRLQ(Imm(31), z, t)
		VPXOR(t, z, z)
		if a.half {
			VPMULLW(a.rounding[0], z, t)
			VMOVDQU(t, a.rounded.Idx(lanesOf(mask), 1))
		}
		VPMINUW(a.last, z, t)
		VPCMPEQW(t, z, z)
		VEXTRACTI128(Imm(1), z, t.AsX())
		VPACKSSWB(t.AsX(), z.AsX(), z.AsX())
		VPMOVMSKB(z.AsX(), bits)
		MOVW(bits.As16(), a.bits.Idx(mask, 1))
	})
}

// lanesOf converts the byte offset of a group's mask to the byte offset of the group's random
// lanes. A lane has two bytes.
func lanesOf(mask reg.GPVirtual) reg.GPVirtual {
	lane := GP64()
	MOVQ(mask, lane)
	SHLQ(Imm(4), lane)
	return lane
}

// input emits the stage that updates the gradient averages, computes x, and stores the x of
// selected elements in dense.
func (a *adaptation256) input() func(at, mask reg.GPVirtual) {
	packs := GP64()
	LEAQ(a.pack, packs)
	avg, grad, scale, trace := param("avg"), param("grad"), param("scale"), param("x")
	return func(at, mask reg.GPVirtual) {
		a.ahead(at, grad, lineBytes)
		var held, lane reg.GPVirtual
		var halves [2]reg.VecVirtual
		if a.half {
			held, lane = a.held(at), lanesOf(mask)
		}
		for k := range 2 {
			here := func(base reg.Register) Mem {
				return Mem{Base: base, Index: at, Scale: 1,
					Disp: 32 * k}
			}
			g, x, t := YMM(), YMM(), YMM()
			VMOVUPS(here(grad), g)
			if a.half {
				from := Mem{Base: avg, Index: held, Scale: 1, Disp: 16 * k}
				halves[k] = a.averageBF16(from, a.rounded.Idx(lane, 1).Offset(16*k), g, x)
			} else {
				a.average(here(avg), g, x, t)
				VMOVUPS(x, here(avg))
			}
			VMULPS(g, a.beta2, t)
			VADDPS(t, x, x)
			unless(scale, "unscaled", k, func() { VMULPS(here(scale), x, x) })

			bits := GP64()
			MOVBQZX(a.bits.Idx(mask, 1).Offset(k), bits)
			VPMOVZXBD(Mem{Base: packs, Index: bits, Scale: 8}, t)
			VPERMPS(x, t, t)
			VMOVUPS(t, a.dense.Idx(a.count, 4))
			unless(trace, "untraced", k, func() {
				VCMPPS(Imm(7), x, x, t) // predicate 7 (ordered) is false for NaN
				VANDPS(t, x, x)
				unpacks := GP64()
				LEAQ(a.unpack, unpacks)
				VPMOVSXBD(Mem{Base: unpacks, Index: bits, Scale: 8}, t)
				VBLENDVPS(t, here(trace), x, x)
				VMOVUPS(x, here(trace))
			})
			POPCNTQ(bits, bits)
			ADDQ(bits, a.count)
		}
		if a.half {
			storeHalves(halves, index(avg, held))
		}
	}
}

// averageBF16 emits the update of eight gradient averages in bfloat16. It returns the results in
// the lower halves of 32-bit lanes, and as float32 in x.
func (a *adaptation256) averageBF16(avg, round Mem, g, x reg.VecVirtual) (halves reg.VecVirtual) {
	t := YMM()
	a.averageHalves(avg, g, x, t)
	VPMOVZXWD(round, t)
	VPADDD(t, x, t)
	a.keepNaN(x, t)
	VPSRLD(Imm(16), t, t)
	VPSLLD(Imm(16), t, x)
	return t
}

// storeHalves emits code that stores the lower 16 bits of each 32-bit lane of two vectors. The
// upper 16 bits must be zero.
func storeHalves(x [2]reg.VecVirtual, m Mem) {
	t := YMM()
	VPACKUSDW(x[1], x[0], t)
	VPERMQ(Imm(0b11011000), t, t)
	VMOVDQU(t, m)
}

// locate emits the stage that finds the grid cell of each x in dense, and replaces x by its
// position in the cell. An x outside the grid gets the last cell.
func (a *adaptation256) locate() {
	c := a.place
	magnitude, toZ, one, last, below, inCell, perCell := c[0], c[1], c[2], c[3], c[4], c[5], c[6]
	a.eachDense("locate", func(at reg.GPVirtual) {
		x, z, t := YMM(), YMM(), YMM()
		VMOVUPS(a.dense.Idx(at, 4), x)
		VANDPS(magnitude, x, z)
		VMULPS(toZ, z, z)
		VADDPS(one, z, z)
		VPSUBD(one, z, z)
		VPMAXUD(z, a.most, a.most)
		VPMINUD(last, z, z)
		VPSRAD(Imm(31), x, x)
		VPAND(below, x, x)
		VPSRLD(Imm(cellShift), z, t)
		VPADDD(x, t, t)
		VMOVDQU(t, a.cell.Idx(at, 4))
		VPAND(inCell, z, z)
		VCVTDQ2PS(z, z)
		VMULPS(perCell, z, z)
		VMOVUPS(z, a.dense.Idx(at, 4))
	})
}

func (a *adaptation256) inside() {
	last := a.place[3]
	t, inside := YMM(), GP32()
	VPMINUD(last, a.most, t)
	VPCMPEQD(a.most, t, t)
	VMOVMSKPS(t, inside)
	CMPL(inside, Imm(0xFF))
	JEQ(LabelRef("inside"))
}

// points emits code that loads the grid points on both sides of eight cells. The two points of a
// cell are adjacent, so one load fetches both. A gather instruction would be slower.
func (a *adaptation256) points(grid reg.Register, at reg.GPVirtual) (v, next reg.VecVirtual) {
	var pairs [4]reg.VecVirtual
	for p := range pairs {
		lo, hi := GP64(), GP64()
		MOVQ(a.cell.Idx(at, 4).Offset(8*p), hi)
		MOVL(hi.As32(), lo.As32())
		SHRQ(Imm(32), hi)
		pairs[p] = XMM()
		VMOVSD(Mem{Base: grid, Index: lo, Scale: 4}, pairs[p])
		VMOVHPS(Mem{Base: grid, Index: hi, Scale: 4}, pairs[p], pairs[p])
	}
	even, odd := YMM(), YMM()
	VINSERTF128(Imm(1), pairs[2], pairs[0].AsY(), even)
	VINSERTF128(Imm(1), pairs[3], pairs[1].AsY(), odd)
	return a.parted(even, odd)
}

// write emits the stage that replaces the selected fast weights.
func (a *adaptation256) write() func(at, mask reg.GPVirtual) {
	unpacks := GP64()
	LEAQ(a.unpack, unpacks)
	fast := param("m")
	return func(at, mask reg.GPVirtual) {
		at = a.held(at)
		a.ahead(at, fast, lineBytes)
		var halves [2]reg.VecVirtual
		for k := range 2 {
			from, m, bits := YMM(), YMM(), GP64()
			MOVBQZX(a.bits.Idx(mask, 1).Offset(k), bits)
			VPMOVSXBD(Mem{Base: unpacks, Index: bits, Scale: 8}, from)
			VPERMPS(a.dense.Idx(a.count, 4), from, m)
			if a.half {
				before := YMM()
				VPMOVZXWD(Mem{Base: fast, Index: at, Scale: 1, Disp: 16 * k}, before)
				VBLENDVPS(from, before, m, m)
				halves[k] = m
			} else {
				here := Mem{Base: fast, Index: at, Scale: 1, Disp: 32 * k}
				VBLENDVPS(from, here, m, m)
				VMOVUPS(m, here)
			}
			POPCNTQ(bits, bits)
			ADDQ(bits, a.count)
		}
		if a.half {
			storeHalves(halves, index(fast, at))
		}
	}
}

// packings emits the tables pack and unpack, which have eight bytes for every mask of eight
// elements. A row of pack lists the indexes of the selected elements in order. A row of unpack has
// the index of each selected element in that list, and negative numbers for the other elements.
func packings() (pack, unpack Mem) {
	var tables [2]Mem
	for t, name := range []string{"adaptPack", "adaptUnpack"} {
		tables[t] = GLOBL(name, RODATA|NOPTR)
		for mask := range 256 {
			row := [8]uint8{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80}
			count := uint8(0)
			for e := range uint8(8) {
				if mask>>e&1 == 0 {
					continue
				}
				if t == 0 {
					row[count] = e
				} else {
					row[e] = count
				}
				count++
			}
			DATA(8*mask, U64(binary.LittleEndian.Uint64(row[:])))
		}
	}
	return tables[0], tables[1]
}

// times emits the product of the four 64-bit words of z with a constant. lo and hi contain the
// lower and upper 32 bits of the constant, each in the lower half of every word.
func times(z reg.VecVirtual, lo, hi Mem) {
	upper, cross := YMM(), YMM()
	VPSRLQ(Imm(32), z, upper)
	VPMULUDQ(lo, upper, upper)
	VPMULUDQ(hi, z, cross)
	VPADDQ(cross, upper, upper)
	VPSLLQ(Imm(32), upper, upper)
	VPMULUDQ(lo, z, z)
	VPADDQ(upper, z, z)
}

func words(name string, vectors ...[4]uint64) []Mem {
	g := GLOBL(name, RODATA|NOPTR)
	m := make([]Mem, len(vectors))
	for i, v := range vectors {
		for l, w := range v {
			DATA(32*i+8*l, U64(w))
		}
		m[i] = g.Offset(32 * i)
	}
	return m
}

func every(w uint64) [4]uint64 { return [4]uint64{w, w, w, w} }
