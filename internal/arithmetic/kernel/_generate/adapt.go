package main

import (
	"math"
	"math/bits"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Constants of the lookup grid, equal to those in grid.go, and of the random bit generator, equal
// to those in random.go.
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

// adaptAhead is the prefetch distance in bytes for gradient averages, fast weights and gradients.
const adaptAhead = 1024

// adaptPlaces are the grid's constants for the method locate.
var adaptPlaces = []uint32{
	1<<31 - 1, math.Float32bits(gridScale), math.Float32bits(1), octaves<<23 - 1,
	cells + 1, 1<<cellShift - 1, math.Float32bits(1. / (1 << cellShift)),
}

// adapt emits the assembly functions of the type Adaptation. They look up the function g only for
// the elements that the mask selects, since each lookup costs time.
func adapt() {
	adapt256()
	adapt512()
}

type adaptation struct {
	isa
	strip                    int
	half                     bool // true if gradient averages and fast weights are bfloat16
	gamma, beta1, beta2, out reg.VecVirtual
	state                    reg.VecVirtual
	most                     reg.VecVirtual // largest grid index in a strip
	place                    []Mem
	odd, below               Op

	bits  Mem // mask of a strip, one bit per element
	dense Mem // inputs x of the selected elements, without gaps; later the results out*g(x)
	count reg.GPVirtual
	cell  Mem
}

// stages are the parts of adapt that differ between instruction sets. Each stage has its own loop.
// In a single loop, the chain of dependent instructions would be so long that the processor could
// hardly overlap two iterations.
type stages interface {
	draw(start, end reg.GPVirtual) // emits the code that draws a strip's masks, unless input does
	input() func(at, mask reg.GPVirtual)
	locate()
	inside() // emits a jump to the label "inside", taken if all elements are in the grid
	points(grid reg.Register, at reg.GPVirtual) (v, next reg.VecVirtual)
	write() func(at, mask reg.GPVirtual)
}

// beginAdapt emits the header of an adapt function. If half is true, gradient averages and fast
// weights are bfloat16, else float32.
func beginAdapt(name string, half bool, doc ...string) {
	held := "float32"
	if half {
		held = "uint16"
	}
	TEXT(name, 0, "func(avg, m *"+held+", grad, scale, x, grid *float32, n int, "+
		"gamma, beta1, beta2, out float32, state, last uint64) (written int, outside uint64)")
	Pragma("noescape")
	Doc(doc...)
}

func newAdaptation(s isa, strip int, half bool, place []Mem) adaptation {
	dense := 4*strip + s.bytes
	return adaptation{
		isa: s, strip: strip, half: half, place: place,
		gamma: s.broadcast("gamma"), beta1: s.broadcast("beta1"),
		beta2: s.broadcast("beta2"), out: s.broadcast("out"),
		state: s.vector(), count: GP64(),
		bits: AllocLocal(strip / 8), dense: AllocLocal(dense), cell: AllocLocal(dense),
	}
}

func (a *adaptation) emit(s stages) {
	written, outside := AllocLocal(8), AllocLocal(8)
	MOVQ(U32(0), written)
	MOVQ(U32(0), outside)
	start := GP64()
	XORQ(start, start)

	Label("strip")
	end := a.endOfStrip(start)
	s.draw(start, end)
	XORQ(a.count, a.count)
	a.stage("input", start, end, s.input())
	a.pad()
	ADDQ(a.count, written)
	a.clear(a.most)
	s.locate()
	s.inside()
	a.note(outside, start)
	Label("inside")
	a.lookUp(s)
	XORQ(a.count, a.count)
	a.stage("write", start, end, s.write())
	MOVQ(end, start)
	n := param("n")
	SHLQ(Imm(2), n)
	CMPQ(start, n)
	JL(LabelRef("strip"))
	for i, m := range []Mem{written, outside} {
		r := GP64()
		MOVQ(m, r)
		Store(r, ReturnIndex(i))
	}
	leave()
}

// endOfStrip emits code that computes the end of the strip: a full strip, or all remaining
// elements.
func (a *adaptation) endOfStrip(start reg.GPVirtual) reg.GPVirtual {
	end, limit := param("n"), GP64()
	SHLQ(Imm(2), end)
	LEAQ(Mem{Base: start, Disp: 4 * a.strip}, limit)
	CMPQ(limit, end)
	CMOVQLT(limit, end)
	return end
}

// stage emits a loop from start to end over groups of two vectors. The parameter body emits the
// code for a group, given the group's offset and the byte offset of the group's mask.
func (a *adaptation) stage(
	name string, start, end reg.GPVirtual, body func(at, mask reg.GPVirtual),
) {
	at, mask := GP64(), GP64()
	MOVQ(start, at)
	XORQ(mask, mask)
	upFrom(at, name, 2*a.bytes, end, func(at reg.GPVirtual) {
		body(at, mask)
		ADDQ(Imm(uint64(a.bytes/16)), mask)
	})
}

// eachDense emits a loop over the selected elements, one vector per iteration.
func (a *adaptation) eachDense(name string, body func(at reg.GPVirtual)) {
	upTo(name, a.bytes/4, a.count, body)
}

func (a *adaptation) clear(v reg.VecVirtual) {
	if a.bytes == avx512.bytes {
		VPXORD(v, v, v)
	} else {
		VPXOR(v, v, v)
	}
}

// pad emits code that writes zeros after the last element of dense, so that whole vectors can be
// read.
func (a *adaptation) pad() {
	zero, behind := a.vector(), a.dense.Idx(a.count, 4)
	a.clear(zero)
	if a.bytes == avx512.bytes {
		VMOVDQU32(zero, behind)
	} else {
		VMOVDQU(zero, behind)
	}
}

// held converts an element's byte offset among float32 numbers to its byte offset in the arrays of
// gradient averages and fast weights. These arrays may be bfloat16.
func (a *adaptation) held(at reg.GPVirtual) reg.GPVirtual {
	if !a.half {
		return at
	}
	halved := GP64()
	MOVQ(at, halved)
	SHRQ(Imm(1), halved)
	return halved
}

// ahead emits prefetches for a group's cache lines at p + at + adaptAhead. The parameter bytes is
// the size of the group.
func (a *adaptation) ahead(at, p reg.Register, bytes int) {
	for line := 0; line < bytes; line += lineBytes {
		PREFETCHT0(Mem{Base: p, Index: at, Scale: 1, Disp: adaptAhead + line})
	}
}

// average emits x = gamma I + beta1 g, and t = beta1 g, for the gradient average I and the gradient
// g.
func (a *adaptation) average(i Op, g, x, t reg.VecVirtual) {
	VMULPS(i, a.gamma, x)
	VMULPS(g, a.beta1, t)
	VADDPS(t, x, x)
}

// averageHalves emits the code of the method average for a gradient average I in bfloat16.
func (a *adaptation) averageHalves(i Mem, g, x, t reg.VecVirtual) {
	VPMOVZXWD(i, x)
	VPSLLD(Imm(16), x, x)
	a.average(x, g, x, t)
}

// note emits code that marks the strip that begins at start by a bit in `outside`.
func (a *adaptation) note(outside Mem, start reg.GPVirtual) {
	strip, strips := GP64(), GP64()
	MOVQ(start, strip)
	SHRQ(Imm(uint64(bits.TrailingZeros(uint(4*a.strip)))), strip)
	MOVQ(outside, strips)
	BTSQ(strip, strips)
	MOVQ(strips, outside)
}

// round emits the rounding of float32 to bfloat16. With AVX2 the result is in the lower half of
// each 32-bit lane, with AVX-512 in the upper half.
func (a *adaptation) round(v reg.VecVirtual) reg.VecVirtual {
	wide, t := a.bytes == avx512.bytes, a.vector()
	VPSRLD(Imm(16), v, t)
	if wide {
		VPANDD(a.odd, t, t)
	} else {
		VPAND(a.odd, t, t)
	}
	VPADDD(a.below, t, t)
	VPADDD(t, v, t)
	a.keepNaN(v, t)
	if wide {
		return t
	}
	VPSRLD(Imm(16), t, v)
	return v
}

// keepNaN restores x wherever x is NaN, since rounding by integer arithmetic could turn a NaN into
// another value.
func (a *adaptation) keepNaN(x, rounded reg.VecVirtual) {
	const unordered = 3
	if a.bytes == avx512.bytes {
		nan := K()
		VCMPPS(Imm(unordered), x, x, nan)
		VMOVAPS(x, nan, rounded)
		return
	}
	nan := YMM()
	VCMPPS(Imm(unordered), x, x, nan)
	VBLENDVPS(nan, x, rounded, rounded)
}

// lookUp emits code that replaces each position in the grid by the interpolated out*g(x). If fast
// weights are bfloat16, the code also rounds the results to bfloat16.
func (a *adaptation) lookUp(s stages) {
	grid := param("grid")
	a.eachDense("look", func(at reg.GPVirtual) {
		v, next := s.points(grid, at)
		VSUBPS(v, next, next)
		VMULPS(a.dense.Idx(at, 4), next, next)
		VADDPS(next, v, v)
		VMULPS(v, a.out, v)
		if a.half {
			v = a.round(v)
		}
		VMOVUPS(v, a.dense.Idx(at, 4))
	})
}

// parted splits pairs of neighboring elements into a vector v of first elements and a vector `next`
// of second elements.
func (a *adaptation) parted(even, odd reg.VecVirtual) (v, next reg.VecVirtual) {
	v, next = a.vector(), a.vector()
	VSHUFPS(Imm(0x88), odd, even, v)
	VSHUFPS(Imm(0xDD), odd, even, next)
	return v, next
}

// unless emits a branch that skips the emitted body if the pointer p is nil.
func unless(p reg.Register, label string, k int, body func()) {
	label += string(rune('0' + k))
	TESTQ(p, p)
	JZ(LabelRef(label))
	body()
	Label(label)
}
