package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/reg"
)

func adam() {
	function("adamAVX2", "func(w, m, v, grad *float32, n int, scale, beta1, rest1, beta2, rest2, rate, root, eps float32)",
		"is Adam.portable; n > 0 a multiple of 8.")
	w, m, v, g := param("w"), param("m"), param("v"), param("grad")
	scale, beta1, rest1, beta2, rest2 := broadcast("scale"), broadcast("beta1"), broadcast("rest1"), broadcast("beta2"), broadcast("rest2")
	rate, root, eps := broadcast("rate"), broadcast("root"), broadcast("eps")
	eights(func(at reg.GPVirtual) {
		d, first, second, t := YMM(), YMM(), YMM(), YMM()
		VMULPS(index(g, at), scale, d)
		VMULPS(index(m, at), beta1, first)
		VMULPS(rest1, d, t)
		VADDPS(t, first, first)
		VMOVUPS(first, index(m, at))
		VMULPS(d, d, d)
		VMULPS(rest2, d, d)
		VMULPS(index(v, at), beta2, second)
		VADDPS(d, second, second)
		VMOVUPS(second, index(v, at))
		VSQRTPS(second, second)
		VMULPS(root, second, second)
		VADDPS(eps, second, second)
		VMULPS(rate, first, first)
		VDIVPS(second, first, first)
		VMOVUPS(index(w, at), t)
		VSUBPS(first, t, t)
		VMOVUPS(t, index(w, at))
	})
}
