package main

import (
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

	golden = 0x9E3779B97F4A7C15
	mix1   = 0xBF58476D1CE4E5B9
	mix2   = 0x94D049BB133111EB
)

const (
	// adaptStrip is how many elements go through the stages of adaptAVX2 together.
	// One stage with everything would be twice as slow: so long a chain of
	// instructions fills the processor's window with a single turn.
	adaptStrip = 256

	// adaptAhead is how far ahead of their use the arenas are fetched, in bytes.
	adaptAhead = 1024
)

// adaptation is what adaptAVX2 keeps in registers and on its stack.
type adaptation struct {
	i, m, g, scale, x, prior, sum, grid reg.Register
	gamma, beta1, beta2, out            reg.VecVirtual
	state                               reg.VecVirtual // of the generator, four words
	most                                reg.VecVirtual // largest place in the grid so far
	written                             reg.GPVirtual
	last                                Mem // largest lane that is written

	on, cell, place Mem // of a strip: words, 0 or -1; its cell in the grid; the place in it
}

func adapt() {
	TEXT("adaptAVX2", 0, "func(avg, m, grad, scale, x, prior, sum, grid *float32, n int, gamma, beta1, beta2, out float32, state, last uint64) (written int, most uint32)")
	Pragma("noescape")
	Doc("adaptAVX2 is the portable stages of Adaptation, but for what lies outside of the grid.",
		"n > 0 is a multiple of 16, state that of the generator at the first element, last the",
		"largest lane that is written. most is the largest place that was looked up: the end of",
		"the grid or more means that some were not in it.")
	load := func(name string) reg.Register { return Load(Param(name), GP64()) }
	a := &adaptation{
		i: load("avg"), m: load("m"), g: load("grad"), scale: load("scale"), x: load("x"), prior: load("prior"), sum: load("sum"), grid: load("grid"),
		gamma: broadcast("gamma"), beta1: broadcast("beta1"), beta2: broadcast("beta2"), out: broadcast("out"),
		state: YMM(), most: YMM(), written: GP64(),
		last: AllocLocal(32), on: AllocLocal(4 * adaptStrip), cell: AllocLocal(4 * adaptStrip), place: AllocLocal(4 * adaptStrip),
	}
	VPXOR(a.most, a.most, a.most)
	XORQ(a.written, a.written)
	low := XMM()
	VMOVQ(Load(Param("last"), GP64()), low)
	all := YMM()
	VPBROADCASTW(low, all)
	VMOVDQU(all, a.last)
	state := XMM()
	VMOVQ(Load(Param("state"), GP64()), state)
	VPBROADCASTQ(state, a.state)
	c := words("adaptFirst", [4]uint64{0, golden, golden * 2 & (1<<64 - 1), golden * 3 & (1<<64 - 1)})
	VPADDQ(c[0], a.state, a.state)

	n := Load(Param("n"), GP64())
	SHLQ(Imm(2), n)
	Label("strip")
	end := GP64()
	MOVQ(U32(4*adaptStrip), end)
	CMPQ(n, end)
	CMOVQLT(n, end)
	stage("draw", end, a.draw())
	stage("input", end, a.input())
	stage("write", end, a.write())
	for _, p := range []reg.Register{a.i, a.m, a.g} {
		ADDQ(end, p)
	}
	for _, p := range []reg.Register{a.scale, a.x, a.prior, a.sum} {
		next := GP64()
		LEAQ(Mem{Base: p, Index: end, Scale: 1}, next)
		TESTQ(p, p)
		CMOVQNE(next, p)
	}
	SUBQ(end, n)
	JNZ(LabelRef("strip"))

	Store(a.written, ReturnIndex(0))
	x := XMM()
	VEXTRACTI128(Imm(1), a.most, x)
	VPMAXUD(x, a.most.AsX(), x)
	for _, swap := range []uint64{0x4E, 0xB1} {
		t := XMM()
		VPSHUFD(Imm(swap), x, t)
		VPMAXUD(t, x, x)
	}
	most := GP32()
	VMOVD(x, most)
	Store(most, ReturnIndex(1))
	VZEROUPPER()
	RET()
}

// stage emits a loop over the groups of 16 elements, 64 bytes, up to end.
func stage(name string, end reg.GPVirtual, body func(at reg.GPVirtual)) {
	at := GP64()
	XORQ(at, at)
	Label(name)
	body(at)
	ADDQ(Imm(64), at)
	CMPQ(at, end)
	JL(LabelRef(name))
}

// draw makes the masks of 16 elements from four random words.
func (a *adaptation) draw() func(at reg.GPVirtual) {
	c := words("adaptWords", every(golden*4&(1<<64-1)), every(mix1), every(mix1>>32), every(mix2), every(mix2>>32))
	return func(at reg.GPVirtual) {
		a.ahead(at, a.i)
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
		VPMINUW(a.last, z, t)
		VPCMPEQW(t, z, z)
		VPMOVMSKB(z, bits) // two bits an element
		POPCNTL(bits, bits)
		SHRL(Imm(1), bits)
		ADDQ(bits.As64(), a.written)
		VPMOVSXWD(z.AsX(), t)
		VMOVDQU(t, a.on.Idx(at, 1))
		VEXTRACTI128(Imm(1), z, z.AsX())
		VPMOVSXWD(z.AsX(), t)
		VMOVDQU(t, a.on.Idx(at, 1).Offset(32))
	}
}

// input moves I, computes x, keeps it where it is traced, and finds its place in the grid.
func (a *adaptation) input() func(at reg.GPVirtual) {
	f := math.Float32bits
	c := constants("adaptConstants", 1<<31-1, f(gridScale), f(1), octaves<<23-1, cells+1, 1<<cellShift-1, f(1./(1<<cellShift)))
	magnitude, toZ, one, last, below, inCell, perCell := c[0], c[1], c[2], c[3], c[4], c[5], c[6]
	return func(at reg.GPVirtual) {
		a.ahead(at, a.g)
		for k := range 2 {
			here := func(base reg.Register) Mem { return Mem{Base: base, Index: at, Scale: 1, Disp: 32 * k} }
			g, x, t := YMM(), YMM(), YMM()
			VMOVUPS(here(a.g), g)
			VMULPS(here(a.i), a.gamma, x)
			VMULPS(g, a.beta1, t)
			VADDPS(t, x, x)
			VMOVUPS(x, here(a.i))
			VMULPS(g, a.beta2, t)
			VADDPS(t, x, x)
			unless(a.scale, "unscaled", k, func() { VMULPS(here(a.scale), x, x) })

			on := a.on.Idx(at, 1).Offset(32 * k)
			z, i := YMM(), YMM()
			VANDPS(magnitude, x, z)
			VMULPS(toZ, z, z)
			VADDPS(one, z, z)
			VPSUBD(one, z, z)
			VPMAXUD(z, a.most, a.most)
			VPMINUD(last, z, z)
			VPSRAD(Imm(31), x, t)
			VPAND(below, t, t)
			VPSRLD(Imm(cellShift), z, i)
			VPADDD(t, i, i)
			VPAND(on, i, i) // what is not written looks up the first cell, which is in the cache
			VMOVDQU(i, a.cell.Idx(at, 1).Offset(32*k))
			VPAND(inCell, z, z)
			VCVTDQ2PS(z, z)
			VMULPS(perCell, z, z)
			VMOVUPS(z, a.place.Idx(at, 1).Offset(32*k))

			unless(a.x, "untraced", k, func() {
				VCMPPS(Imm(7), x, x, t) // ordered: 0 for NaN
				VANDPS(t, x, x)
				VMOVUPS(on, z)
				VMOVUPS(here(a.x), t)
				VBLENDVPS(z, x, t, x)
				VMOVUPS(x, here(a.x))
			})
		}
	}
}

// write replaces M where the mask is on, and adds it up.
func (a *adaptation) write() func(at reg.GPVirtual) {
	return func(at reg.GPVirtual) {
		a.ahead(at, a.m)
		for k := range 2 {
			here := func(base reg.Register) Mem { return Mem{Base: base, Index: at, Scale: 1, Disp: 32 * k} }
			v, next := a.lookUp(at, k)
			VSUBPS(v, next, next)
			VMULPS(a.place.Idx(at, 1).Offset(32*k), next, next)
			VADDPS(next, v, v)
			VMULPS(v, a.out, v)
			on, m := YMM(), YMM()
			VMOVUPS(a.on.Idx(at, 1).Offset(32*k), on)
			VMOVUPS(here(a.m), m)
			VBLENDVPS(on, v, m, m)
			VMOVUPS(m, here(a.m))
			unless(a.sum, "alone", k, func() {
				VADDPS(here(a.prior), m, m)
				VMOVUPS(m, here(a.sum))
			})
		}
	}
}

// unless emits what is left out if the pointer is nil.
func unless(p reg.Register, label string, k int, body func()) {
	label += string(rune('0' + k))
	TESTQ(p, p)
	JZ(LabelRef(label))
	body()
	Label(label)
}

// ahead asks for a cache line ahead of each pointer.
func (a *adaptation) ahead(at reg.GPVirtual, pointers ...reg.Register) {
	for _, p := range pointers {
		PREFETCHT0(Mem{Base: p, Index: at, Scale: 1, Disp: adaptAhead})
	}
}

// lookUp loads the grid points on both sides of eight places. They lie side by side,
// so that one load fetches two; a gather instruction would take longer.
func (a *adaptation) lookUp(at reg.GPVirtual, k int) (v, next reg.VecVirtual) {
	var pairs [4]reg.VecVirtual
	for p := range pairs {
		lo, hi := GP64(), GP64()
		MOVQ(a.cell.Idx(at, 1).Offset(32*k+8*p), hi)
		MOVL(hi.As32(), lo.As32())
		SHRQ(Imm(32), hi)
		pairs[p] = XMM()
		VMOVSD(Mem{Base: a.grid, Index: lo, Scale: 4}, pairs[p])
		VMOVHPS(Mem{Base: a.grid, Index: hi, Scale: 4}, pairs[p], pairs[p])
	}
	even, odd := YMM(), YMM()
	VINSERTF128(Imm(1), pairs[2], pairs[0].AsY(), even)
	VINSERTF128(Imm(1), pairs[3], pairs[1].AsY(), odd)
	v, next = YMM(), YMM()
	VSHUFPS(Imm(0x88), odd, even, v)
	VSHUFPS(Imm(0xDD), odd, even, next)
	return v, next
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
