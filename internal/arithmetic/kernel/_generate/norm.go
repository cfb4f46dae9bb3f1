package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// doubles emits the conversion of eight float32 to two registers of four float64.
func doubles(v reg.VecVirtual) (lo, hi reg.VecVirtual) {
	lo, hi = YMM(), YMM()
	upper := XMM()
	VEXTRACTF128(Imm(1), v, upper)
	VCVTPS2PD(v.AsX(), lo)
	VCVTPS2PD(upper, hi)
	return lo, hi
}

type lanes8 struct {
	at     Mem
	lo, hi reg.VecVirtual
}

func loadLanes(at Mem) lanes8 {
	l := lanes8{at, YMM(), YMM()}
	VMOVUPD(at, l.lo)
	VMOVUPD(at.Offset(32), l.hi)
	return l
}

func (l lanes8) add(lo, hi reg.VecVirtual) {
	VADDPD(lo, l.lo, l.lo)
	VADDPD(hi, l.hi, l.hi)
}

func (l lanes8) store() {
	VMOVUPD(l.lo, l.at)
	VMOVUPD(l.hi, l.at.Offset(32))
}

// centered emits (x - mean) * rstd.
func centered(x Mem, mean, rstd reg.VecVirtual) reg.VecVirtual {
	v := YMM()
	VMOVUPS(x, v)
	VSUBPS(mean, v, v)
	VMULPS(rstd, v, v)
	return v
}

func sum() {
	p := begin("sumAVX2", "func(x *float32, n int, lanes *[8]float64)", "x", "lanes")
	lanes := loadLanes(Mem{Base: p[1]})
	eightsThen(func(at reg.GPVirtual) {
		v := YMM()
		VMOVUPS(index(p[0], at), v)
		lanes.add(doubles(v))
	}, lanes.store)
}

func squares() {
	p := begin("squaresAVX2", "func(x *float32, n int, mean float64, lanes *[8]float64)", "x",
		"lanes")
	mean, lanes := YMM(), loadLanes(Mem{Base: p[1]})
	m, err := Param("mean").Resolve()
	if err != nil {
		panic(err)
	}
	VBROADCASTSD(m.Addr, mean)
	eightsThen(func(at reg.GPVirtual) {
		v := YMM()
		VMOVUPS(index(p[0], at), v)
		lo, hi := doubles(v)
		for _, d := range []reg.VecVirtual{lo, hi} {
			VSUBPD(mean, d, d)
			VMULPD(d, d, d)
		}
		lanes.add(lo, hi)
	}, lanes.store)
}

func normalize() {
	p := begin("normalizeAVX2", "func(y, x, gain, bias *float32, n int, mean, rstd float32)", "y",
		"x", "gain", "bias")
	mean, rstd := broadcast("mean"), broadcast("rstd")
	eights(func(at reg.GPVirtual) {
		v := centered(index(p[1], at), mean, rstd)
		VMULPS(index(p[2], at), v, v)
		VADDPS(index(p[3], at), v, v)
		VMOVUPS(v, index(p[0], at))
	})
}

func normDots() {
	p := begin("normDotsAVX2", "func(dy, x, gain *float32, n int, mean, rstd float32, lanes "+
		"*[16]float64)", "dy", "x", "gain", "lanes")
	mean, rstd := broadcast("mean"), broadcast("rstd")
	sums, dots := loadLanes(Mem{Base: p[3]}), loadLanes(Mem{Base: p[3], Disp: 64})
	eightsThen(func(at reg.GPVirtual) {
		v := centered(index(p[1], at), mean, rstd)
		g := YMM()
		VMOVUPS(index(p[0], at), g)
		VMULPS(index(p[2], at), g, g)
		xlo, xhi := doubles(v)
		glo, ghi := doubles(g)
		sums.add(glo, ghi)
		VMULPD(glo, xlo, xlo)
		VMULPD(ghi, xhi, xhi)
		dots.add(xlo, xhi)
	}, func() { sums.store(); dots.store() })
}

func normBackward() {
	p := begin("normBackwardAVX2", "func(dx, dy, x, gain *float32, n int, mean, rstd, meanG, "+
		"meanGX float32)", "dx", "dy", "x", "gain")
	mean, rstd, meanG, meanGX := broadcast("mean"), broadcast("rstd"), broadcast("meanG"),
		broadcast("meanGX")
	eights(func(at reg.GPVirtual) {
		v := centered(index(p[2], at), mean, rstd)
		VMULPS(meanGX, v, v)
		g := YMM()
		VMOVUPS(index(p[1], at), g)
		VMULPS(index(p[3], at), g, g)
		VSUBPS(meanG, g, g)
		VSUBPS(v, g, g)
		VMULPS(rstd, g, g)
		VMOVUPS(g, index(p[0], at))
	})
}

func normGain() {
	p := begin("normGainAVX2", "func(dgain, dy, x *float32, n int, mean, rstd float32)", "dgain",
		"dy", "x")
	mean, rstd := broadcast("mean"), broadcast("rstd")
	eights(func(at reg.GPVirtual) {
		v := centered(index(p[2], at), mean, rstd)
		VMULPS(index(p[1], at), v, v)
		VADDPS(index(p[0], at), v, v)
		VMOVUPS(v, index(p[0], at))
	})
}
