//go:build amd64 && !noasm

package kernel

//go:generate sh -c "cd _generate && go run . vector -out ../vector_amd64.s -stubs ../vector_amd64.go -pkg kernel"

// eights is how many of n elements the assembly takes; the rest is left to Go.
func eights(n int) int {
	if !simd {
		return 0
	}
	return n &^ 7
}

func expSum(dst, src []float32, scale, shift float32, lanes *[8]float32) {
	n := eights(len(src))
	if n > 0 {
		expAVX2(&dst[0], &src[0], n, scale, shift, lanes)
	}
	expGo(dst[n:], src[n:], scale, shift, lanes)
}

func raise(x []float32, lanes *[8]float32) {
	n := eights(len(x))
	if n > 0 {
		largestAVX2(&x[0], n, lanes)
	}
	raiseGo(x[n:], lanes)
}

func dot(a, b []float32, lanes *[8]float32) {
	n := eights(len(a))
	if n > 0 {
		dotAVX2(&a[0], &b[0], n, lanes)
	}
	dotGo(a[n:], b[n:], lanes)
}

func axpy(y []float32, a float32, x []float32) {
	n := eights(len(x))
	if n > 0 {
		axpyAVX2(&y[0], &x[0], n, a)
	}
	axpyGo(y[n:], a, x[n:])
}

func scaleRow(x []float32, a float32) {
	n := eights(len(x))
	if n > 0 {
		scaleAVX2(&x[0], n, a)
	}
	scaleRowGo(x[n:], a)
}
