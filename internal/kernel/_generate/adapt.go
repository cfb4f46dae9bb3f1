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

// adaptAhead is how far ahead of their use the arenas are fetched, in bytes: the
// tables' loads leave the processor's own prefetching behind.
const adaptAhead = 1024

// adaptation holds what one run of adaptAVX2 keeps in registers and constants.
type adaptation struct {
	i, m, g, scale, x, prior, sum, grid reg.Register
	gamma, beta1, beta2, out            reg.VecVirtual
	most                                reg.VecVirtual // largest place in the grid so far
	indices                             Mem

	magnitude, toZ, one, last, cells, place, perCell Mem
}

// adapt is 16 elements a turn: the masks of that many are four random words.
func adapt() {
	f := math.Float32bits
	c := constants("adaptConstants", 1<<31-1, f(gridScale), f(1), octaves<<23-1, cells+1, 1<<cellShift-1, f(1./(1<<cellShift)))
	words := words("adaptWords", [4]uint64{0, golden, golden * 2 & (1<<64 - 1), golden * 3 & (1<<64 - 1)}, every(golden*4&(1<<64-1)),
		every(mix1), every(mix1>>32), every(mix2), every(mix2>>32))

	TEXT("adaptAVX2", NOSPLIT, "func(avg, m, grad, scale, x, prior, sum, grid *float32, n int, gamma, beta1, beta2, out float32, state, last uint64) (written int, most uint32)")
	Pragma("noescape")
	Doc("adaptAVX2 is the portable steps of Adaptation, but for what lies outside the grid; n > 0 a multiple",
		"of 16, last the largest lane that is written, state that of the generator at the first",
		"element. most is the largest place that was looked up: from the grid's length on it was wrong.")
	load := func(name string) reg.Register { return Load(Param(name), GP64()) }
	a := &adaptation{
		i: load("avg"), m: load("m"), g: load("grad"), scale: load("scale"), x: load("x"), prior: load("prior"), sum: load("sum"), grid: load("grid"),
		gamma: broadcast("gamma"), beta1: broadcast("beta1"), beta2: broadcast("beta2"), out: broadcast("out"),
		most: YMM(), indices: AllocLocal(32),
		magnitude: c[0], toZ: c[1], one: c[2], last: c[3], cells: c[4], place: c[5], perCell: c[6],
	}
	VPXOR(a.most, a.most, a.most)
	last, state := AllocLocal(32), YMM()
	{
		v, low := YMM(), XMM()
		VMOVQ(Load(Param("last"), GP64()), low)
		VPBROADCASTW(low, v)
		VMOVDQU(v, last)
		m, _ := Param("state").Resolve()
		VPBROADCASTQ(m.Addr, state)
		VPADDQ(words[0], state, state)
	}
	written := GP64()
	XORQ(written, written)
	at := GP64()
	XORQ(at, at)
	end := Load(Param("n"), GP64())
	SHLQ(Imm(2), end)
	Label("loop")
	{
		for _, p := range []reg.Register{a.i, a.m, a.g} {
			PREFETCHT0(Mem{Base: p, Index: at, Scale: 1, Disp: adaptAhead})
		}
		z, t := YMM(), YMM()
		VPSRLQ(Imm(30), state, t)
		VPXOR(t, state, z)
		VPADDQ(words[1], state, state)
		times(z, words[2], words[3])
		VPSRLQ(Imm(27), z, t)
		VPXOR(t, z, z)
		times(z, words[4], words[5])
		VPSRLQ(Imm(31), z, t)
		VPXOR(t, z, z)
		VPMINUW(last, z, t)
		mask := YMM()
		VPCMPEQW(t, z, mask)
		bits := GP32()
		VPMOVMSKB(mask, bits)
		POPCNTL(bits, bits)
		ADDQ(bits.As64(), written)

		on := YMM()
		VPMOVSXWD(mask.AsX(), on)
		a.eight(at, 0, on)
		VEXTRACTI128(Imm(1), mask, mask.AsX())
		VPMOVSXWD(mask.AsX(), on)
		a.eight(at, 32, on)
	}
	ADDQ(Imm(64), at)
	CMPQ(at, end)
	JL(LabelRef("loop"))

	SHRQ(Imm(1), written) // two bits each
	Store(written, ReturnIndex(0))
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

// eight adapts eight elements, disp bytes behind at, and writes those that are on.
func (a *adaptation) eight(at reg.GPVirtual, disp int, on reg.VecVirtual) {
	here := func(base reg.Register) Mem { return Mem{Base: base, Index: at, Scale: 1, Disp: disp} }
	label := func(name string) string { return name + string(rune('0'+disp/32)) }

	g, x, t := YMM(), YMM(), YMM()
	VMOVUPS(here(a.g), g)
	VMULPS(here(a.i), a.gamma, x)
	VMULPS(g, a.beta1, t)
	VADDPS(t, x, x)
	VMOVUPS(x, here(a.i))
	VMULPS(g, a.beta2, t)
	VADDPS(t, x, x)
	TESTQ(a.scale, a.scale)
	JZ(LabelRef(label("unscaled")))
	VMULPS(here(a.scale), x, x)
	Label(label("unscaled"))

	z, i, w := YMM(), YMM(), YMM()
	VANDPS(a.magnitude, x, z)
	VMULPS(a.toZ, z, z)
	VADDPS(a.one, z, z)
	VPSUBD(a.one, z, z)
	VPMAXUD(z, a.most, a.most)
	VPMINUD(a.last, z, z)
	VPSRAD(Imm(31), x, t)
	VPAND(a.cells, t, t)
	VPSRLD(Imm(cellShift), z, i)
	VPADDD(t, i, i)
	VMOVDQU(i, a.indices)
	VPAND(a.place, z, w)
	VCVTDQ2PS(w, w)
	VMULPS(a.perCell, w, w)

	v, next := a.lookUp()
	VSUBPS(v, next, next)
	VMULPS(next, w, w)
	VADDPS(w, v, v)
	VMULPS(v, a.out, v)
	VMOVUPS(here(a.m), t)
	VBLENDVPS(on, v, t, v)
	VMOVUPS(v, here(a.m))

	TESTQ(a.sum, a.sum)
	JZ(LabelRef(label("alone")))
	VMOVUPS(here(a.prior), t)
	VADDPS(v, t, t)
	VMOVUPS(t, here(a.sum))
	Label(label("alone"))

	TESTQ(a.x, a.x)
	JZ(LabelRef(label("untraced")))
	VCMPPS(Imm(7), x, x, t) // ordered: not NaN
	VANDPS(t, x, x)
	VMOVUPS(here(a.x), t)
	VBLENDVPS(on, x, t, x)
	VMOVUPS(x, here(a.x))
	Label(label("untraced"))
}

// lookUp loads the neighbouring grid values of eight indices. They lie side by side,
// so that one load fetches both; a gather instruction would take longer.
func (a *adaptation) lookUp() (v, next reg.VecVirtual) {
	var pairs [4]reg.VecVirtual
	for k := range pairs {
		pairs[k] = XMM()
		lo, hi := GP32(), GP32()
		MOVL(a.indices.Offset(8*k), lo)
		MOVL(a.indices.Offset(8*k+4), hi)
		VMOVSD(Mem{Base: a.grid, Index: lo.As64(), Scale: 4}, pairs[k])
		VMOVHPS(Mem{Base: a.grid, Index: hi.As64(), Scale: 4}, pairs[k], pairs[k])
	}
	a0, a1 := YMM(), YMM()
	VINSERTF128(Imm(1), pairs[2], pairs[0].AsY(), a0)
	VINSERTF128(Imm(1), pairs[3], pairs[1].AsY(), a1)
	v, next = YMM(), YMM()
	VSHUFPS(Imm(0x88), a1, a0, v)
	VSHUFPS(Imm(0xDD), a1, a0, next)
	return v, next
}

// times multiplies the four words of z by a constant, of which lo and hi have the
// low and high halves in the low ones.
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
