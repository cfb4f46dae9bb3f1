//go:build !noasm

package kernel

import "golang.org/x/sys/cpu"

//go:generate sh -c "cd _generate && go run . -out ../kernels_amd64.s -stubs ../kernels_amd64.go -pkg kernel"

// haveSIMD says whether this machine can run the assembly.
var haveSIMD = cpu.X86.HasAVX2 && cpu.X86.HasFMA

// simd says whether it is in use.
var simd bool

func init() { setSIMD(haveSIMD) }

// setSIMD switches the assembly on or off. Tests compare the two.
func setSIMD(on bool) {
	simd, micro = on, &portable
	if on {
		micro = &avx2
	}
}

var avx2 = microKernel{name: "float32-fma", rows: 6, cols: 16, tile: tileAVX2}

// tileAVX2 picks the kernel for the number of rows.
func tileAVX2(rows, k int, a []float32, row, col int, b, c []float32, stride int, acc bool) {
	switch rows {
	case 1:
		tile1AVX2(k, &a[0], row, col, &b[0], &c[0], stride, acc)
	case 2:
		tile2AVX2(k, &a[0], row, col, &b[0], &c[0], stride, acc)
	case 3:
		tile3AVX2(k, &a[0], row, col, &b[0], &c[0], stride, acc)
	case 4:
		tile4AVX2(k, &a[0], row, col, &b[0], &c[0], stride, acc)
	case 5:
		tile5AVX2(k, &a[0], row, col, &b[0], &c[0], stride, acc)
	case 6:
		tile6AVX2(k, &a[0], row, col, &b[0], &c[0], stride, acc)
	}
}

// packRows transposes a panel; what the assembly does not cover is left to Go.
func packRows(dst, src, add []float32, stride, n, k int) {
	done := 0
	if simd && n == micro.cols && k >= 4 {
		done = k &^ 3
		if add == nil {
			packRowsAVX2(&dst[0], &src[0], stride, done)
		} else {
			packRowsAddAVX2(&dst[0], &src[0], &add[0], stride, done)
		}
	}
	if done == k {
		return
	}
	if add != nil {
		add = add[done:]
	}
	packRowsGo(dst[done*micro.cols:], src[done:], add, stride, n, k-done)
}

// packCols copies a panel.
func packCols(dst, src, add []float32, stride, n, k int) {
	switch {
	case !simd || n < micro.cols:
		packColsGo(dst, src, add, stride, n, k)
	case add == nil:
		packColsAVX2(&dst[0], &src[0], stride, k)
	default:
		packColsAddAVX2(&dst[0], &src[0], &add[0], stride, k)
	}
}

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
