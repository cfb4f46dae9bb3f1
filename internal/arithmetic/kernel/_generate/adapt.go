package main

import (
	"encoding/binary"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The geometry of a grid and the generator of random bits, as in grid.go and random.go.
const (
	cellBits  = 11
	octaves   = 12
	cellShift = 23 - cellBits
	cells     = octaves << cellBits
	gridScale = 1096.6331584284585992637202382881214324422

	golden    = 0x9E3779B97F4A7C15
	roundLane = golden >> 48
	mix1      = 0xBF58476D1CE4E5B9
	mix2      = 0x94D049BB133111EB
)

const (
	// adaptStrip is how many elements go through the stages of adapt*AVX2 together, as in
	// adapt_simd.go. One stage with everything would be slower: so long a chain of instructions
	// fills the processor's window with little more than one turn.
	adaptStrip = 128

	// adaptAhead is how far ahead of their use the arenas are fetched, in bytes.
	adaptAhead = 1024
)

// holding says how I and M are held.
type holding struct {
	half bool // in bfloat16
}

// held is the offset in I and M of what lies at an offset in the arrays of float32.
func (h holding) held(at reg.GPVirtual) reg.GPVirtual {
	if !h.half {
		return at
	}
	halved := GP64()
	MOVQ(at, halved)
	SHRQ(Imm(1), halved)
	return halved
}

// heldBytes is the size of an element of I or M.
func (h holding) heldBytes() int {
	if h.half {
		return 2
	}
	return 4
}

// adaptation is what adaptAVX2 and adaptBF16AVX2 keep in registers and on their stacks.
type adaptation struct {
	adaptTables
	holding
	gamma, beta1, beta2, out reg.VecVirtual
	state                    reg.VecVirtual // of the generator, four words
	most                     reg.VecVirtual // largest places in the grid, of a strip
	last                     Mem            // largest lane that is written

	bits  Mem           // of a strip: its mask, a bit an element
	round Mem           // of a strip: the random numbers that I is rounded by
	dense Mem           // of a strip: x, then out g(x), of what is written, without gaps
	count reg.GPVirtual // of those
	cell  Mem           // of those in the grid
}

// adaptTables are the constants that both functions share.
type adaptTables struct {
	first, words, place, rounding []Mem
	pack, unpack                  Mem // by eight bits of the mask: where the dense elements come from, and go to
}

// adapt looks up what is written only, so that what the mask leaves out costs no
// arithmetic and no place of the grid in the cache.
func adapt() {
	f := math.Float32bits
	pack, unpack := packings()
	t := adaptTables{
		first:    words("adaptFirst", [4]uint64{0, golden, golden * 2 & (1<<64 - 1), golden * 3 & (1<<64 - 1)}),
		words:    words("adaptWords", every(golden*4&(1<<64-1)), every(mix1), every(mix1>>32), every(mix2), every(mix2>>32)),
		place:    constants("adaptConstants", 1<<31-1, f(gridScale), f(1), octaves<<23-1, cells+1, 1<<cellShift-1, f(1./(1<<cellShift))),
		rounding: constants("adaptRounding", roundLane<<16|roundLane, 1, 1<<15-1),
		pack:     pack, unpack: unpack,
	}
	t.adapt("adaptAVX2", "float32", false)
	t.adapt("adaptBF16AVX2", "uint16", true)
	adapt512()
}

// adapt emits the function for I and M of one type.
func (t adaptTables) adapt(name, held string, half bool) {
	TEXT(name, 0, "func(avg, m *"+held+", grad, scale, x, grid *float32, n int, gamma, beta1, beta2, out float32, state, last uint64) (written int, outside uint64)")
	Pragma("noescape")
	Doc(name+" is the portable stages of Adaptation, but for what lies outside of the grid.",
		"n is a multiple of 16, above 0 and at most adaptRun; state is that of the generator at",
		"the first element, last the largest lane that is written. Bit s of outside is set if",
		"elements of strip s, which is adaptStrip long, are written and were not in the grid.")
	a := &adaptation{
		adaptTables: t, holding: holding{half},
		gamma: broadcast("gamma"), beta1: broadcast("beta1"), beta2: broadcast("beta2"), out: broadcast("out"),
		state: YMM(), most: YMM(), last: AllocLocal(32), count: GP64(),
		bits: AllocLocal(adaptStrip / 8), dense: AllocLocal(4 * (adaptStrip + 8)), cell: AllocLocal(4 * (adaptStrip + 8)),
	}
	if half {
		a.round = AllocLocal(2 * adaptStrip)
	}
	a.seed()
	written, outside := AllocLocal(8), AllocLocal(8)
	MOVQ(U32(0), written)
	MOVQ(U32(0), outside)
	start := GP64()
	XORQ(start, start)

	end := beginStrip(start, adaptStrip)
	stage("draw", 16, start, end, a.draw())
	XORQ(a.count, a.count)
	stage("input", 16, start, end, a.input())
	zero := YMM()
	VPXOR(zero, zero, zero)
	VMOVDQU(zero, a.dense.Idx(a.count, 4))
	ADDQ(a.count, written)
	VPXOR(a.most, a.most, a.most)
	a.locate()
	a.note(outside, start)
	a.lookUp()
	XORQ(a.count, a.count)
	stage("write", 16, start, end, a.write())
	endStrip(start, end)
	giveBack(written, outside)
}

// seed spreads the generator's state over the next four words.
func (a *adaptation) seed() {
	x, all := XMM(), YMM()
	VMOVQ(Load(Param("last"), GP64()), x)
	VPBROADCASTW(x, all)
	VMOVDQU(all, a.last)
	x = XMM()
	VMOVQ(Load(Param("state"), GP64()), x)
	VPBROADCASTQ(x, a.state)
	VPADDQ(a.first[0], a.state, a.state)
}

// beginStrip begins a strip of so many elements, or of those that are left, and gives its end.
func beginStrip(start reg.GPVirtual, elements int) (end reg.GPVirtual) {
	Label("strip")
	end = Load(Param("n"), GP64()).(reg.GPVirtual)
	SHLQ(Imm(2), end)
	limit := GP64()
	LEAQ(Mem{Base: start, Disp: 4 * elements}, limit)
	CMPQ(limit, end)
	CMOVQLT(limit, end)
	return end
}

// endStrip goes on with the strip behind, if there is one.
func endStrip(start, end reg.GPVirtual) {
	MOVQ(end, start)
	n := Load(Param("n"), GP64())
	SHLQ(Imm(2), n)
	CMPQ(start, n)
	JL(LabelRef("strip"))
}

// giveBack returns the results.
func giveBack(results ...Mem) {
	for i, m := range results {
		r := GP64()
		MOVQ(m, r)
		Store(r, ReturnIndex(i))
	}
	VZEROUPPER()
	RET()
}

// stage emits a loop over the groups of so many elements from start to end. The body also gets the
// offset in bytes of a group's mask.
func stage(name string, elements int, start, end reg.GPVirtual, body func(at, mask reg.GPVirtual)) {
	at, mask := GP64(), GP64()
	MOVQ(start, at)
	XORQ(mask, mask)
	Label(name)
	body(at, mask)
	ADDQ(Imm(uint64(elements/8)), mask)
	ADDQ(Imm(uint64(4*elements)), at)
	CMPQ(at, end)
	JL(LabelRef(name))
}

// draw makes the masks of 16 elements from four random words.
func (a *adaptation) draw() func(at, mask reg.GPVirtual) {
	c, avg := a.words, pointer("avg")
	return func(at, mask reg.GPVirtual) {
		ahead(a.held(at), avg)
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
			VMOVDQU(t, a.round.Idx(lanesOf(mask), 1))
		}
		VPMINUW(a.last, z, t)
		VPCMPEQW(t, z, z)
		VEXTRACTI128(Imm(1), z, t.AsX())
		VPACKSSWB(t.AsX(), z.AsX(), z.AsX())
		VPMOVMSKB(z.AsX(), bits)
		MOVW(bits.As16(), a.bits.Idx(mask, 1))
	}
}

// lanesOf is the offset of a group's lanes, of two bytes, by that of its mask.
func lanesOf(mask reg.GPVirtual) reg.GPVirtual {
	lane := GP64()
	MOVQ(mask, lane)
	SHLQ(Imm(4), lane)
	return lane
}

// input moves I, computes x, and keeps it where it is written.
func (a *adaptation) input() func(at, mask reg.GPVirtual) {
	packs := GP64()
	LEAQ(a.pack, packs)
	avg, grad, scale, trace := pointer("avg"), pointer("grad"), pointer("scale"), pointer("x")
	return func(at, mask reg.GPVirtual) {
		ahead(at, grad)
		var held, lane reg.GPVirtual
		var halves [2]reg.VecVirtual
		if a.half {
			held, lane = a.held(at), lanesOf(mask)
		}
		for k := range 2 {
			here := func(base reg.Register) Mem { return Mem{Base: base, Index: at, Scale: 1, Disp: 32 * k} }
			g, x, t := YMM(), YMM(), YMM()
			VMOVUPS(here(grad), g)
			if a.half {
				halves[k] = a.averageBF16(Mem{Base: avg, Index: held, Scale: 1, Disp: 16 * k}, a.round.Idx(lane, 1).Offset(16*k), g, x)
			} else {
				VMULPS(here(avg), a.gamma, x)
				VMULPS(g, a.beta1, t)
				VADDPS(t, x, x)
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
				VCMPPS(Imm(7), x, x, t) // ordered: 0 for NaN
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

// averageBF16 computes eight elements of I in bfloat16: as halves, see storeHalves, and in x.
func (a *adaptation) averageBF16(avg, round Mem, g, x reg.VecVirtual) (halves reg.VecVirtual) {
	t := YMM()
	VPMOVZXWD(avg, x)
	VPSLLD(Imm(16), x, x)
	VMULPS(x, a.gamma, x)
	VMULPS(g, a.beta1, t)
	VADDPS(t, x, x)
	VPMOVZXWD(round, t)
	VPADDD(t, x, t)
	keepNaN(x, t)
	VPSRLD(Imm(16), t, t)
	VPSLLD(Imm(16), t, x)
	return t
}

// keepNaN replaces rounded, the sum of x's bits and something, by x where that is NaN.
func keepNaN(x, rounded reg.VecVirtual) {
	const unordered = 3
	nan := YMM()
	VCMPPS(Imm(unordered), x, x, nan)
	VBLENDVPS(nan, x, rounded, rounded)
}

// storeHalves stores the lower halves of twice eight words, whose upper halves are zero.
func storeHalves(x [2]reg.VecVirtual, m Mem) {
	t := YMM()
	VPACKUSDW(x[1], x[0], t)
	VPERMQ(Imm(0b11011000), t, t)
	VMOVDQU(t, m)
}

// locate finds the cells of the dense x, and replaces x by the place in the cell. Where
// the grid ends it stays in the last one.
func (a *adaptation) locate() {
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

// note sets the bit of the strip that begins at start if a place was at the grid's end or beyond.
func (a *adaptation) note(outside Mem, start reg.GPVirtual) {
	last := a.place[3]
	t, inside := YMM(), GP32()
	VPMINUD(last, a.most, t)
	VPCMPEQD(a.most, t, t)
	VMOVMSKPS(t, inside)
	CMPL(inside, Imm(0xFF))
	JEQ(LabelRef("inside"))
	strip, bits := GP64(), GP64()
	MOVQ(start, strip)
	SHRQ(Imm(9), strip) // 4 adaptStrip is 2^9
	MOVQ(outside, bits)
	BTSQ(strip, bits)
	MOVQ(bits, outside)
	Label("inside")
}

// lookUp replaces the places by out g(x), in bfloat16 by the words that its halves are
// the lower halves of.
func (a *adaptation) lookUp() {
	grid := pointer("grid")
	a.eachDense("look", func(at reg.GPVirtual) {
		v, next := a.points(grid, at)
		VSUBPS(v, next, next)
		VMULPS(a.dense.Idx(at, 4), next, next)
		VADDPS(next, v, v)
		VMULPS(v, a.out, v)
		if a.half {
			one, below, t := a.rounding[1], a.rounding[2], YMM()
			VPSRLD(Imm(16), v, t)
			VPAND(one, t, t)
			VPADDD(below, t, t)
			VPADDD(t, v, t)
			keepNaN(v, t)
			VPSRLD(Imm(16), t, v)
		}
		VMOVUPS(v, a.dense.Idx(at, 4))
	})
}

// eachDense emits a loop over the dense elements, eight at a time.
func (a *adaptation) eachDense(name string, body func(at reg.GPVirtual)) {
	at := GP64()
	XORQ(at, at)
	Label(name)
	body(at)
	ADDQ(Imm(8), at)
	CMPQ(at, a.count)
	JL(LabelRef(name))
}

// points loads the grid points on both sides of eight cells. They lie side by side,
// so that one load fetches two; a gather instruction would take longer.
func (a *adaptation) points(grid reg.Register, at reg.GPVirtual) (v, next reg.VecVirtual) {
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
	v, next = YMM(), YMM()
	VSHUFPS(Imm(0x88), odd, even, v)
	VSHUFPS(Imm(0xDD), odd, even, next)
	return v, next
}

// write replaces M where the mask is on.
func (a *adaptation) write() func(at, mask reg.GPVirtual) {
	unpacks := GP64()
	LEAQ(a.unpack, unpacks)
	fast := pointer("m")
	return func(at, mask reg.GPVirtual) {
		at = a.held(at)
		ahead(at, fast)
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

// packings lays out, for every mask of eight elements, eight bytes each: the elements
// that are on, one after the other; and for every element that is on its number among
// them, for the others a negative one.
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

// pointer loads a pointer parameter.
func pointer(name string) reg.Register { return Load(Param(name), GP64()) }

// unless emits what is left out if the pointer is nil.
func unless(p reg.Register, label string, k int, body func()) {
	label += string(rune('0' + k))
	TESTQ(p, p)
	JZ(LabelRef(label))
	body()
	Label(label)
}

// ahead asks for a cache line ahead of a pointer.
func ahead(at, p reg.Register) {
	PREFETCHT0(Mem{Base: p, Index: at, Scale: 1, Disp: adaptAhead})
}

// times multiplies the four words of z by a constant, whose low and high halves are
// the low halves of lo and hi.
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

// words lays out vectors of four words and returns the memory operand of each.
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
