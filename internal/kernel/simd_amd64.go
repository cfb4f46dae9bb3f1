//go:build !noasm

package kernel

import "golang.org/x/sys/cpu"

//go:generate sh -c "cd _generate && go run . gemm -out ../gemm_amd64.s -stubs ../gemm_amd64.go -pkg kernel"

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
