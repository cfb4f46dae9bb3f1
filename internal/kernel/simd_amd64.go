//go:build !noasm

package kernel

import "golang.org/x/sys/cpu"

//go:generate sh -c "cd _generate && go run . gemm -out ../gemm_amd64.s -stubs ../gemm_amd64.go -pkg kernel"

// haveSIMD says whether this machine can run the assembly, and haveAVX512 whether
// also the wider tiles.
var (
	haveSIMD   = cpu.X86.HasAVX2 && cpu.X86.HasFMA
	haveAVX512 = haveSIMD && cpu.X86.HasAVX512F
)

// simd says whether it is in use, and fewRows up to how many rows fewTile is.
var (
	simd    bool
	fewRows int
)

const fewCols = 16

func init() { setSIMD(haveSIMD) }

// setSIMD switches the assembly on or off. Tests compare the two.
func setSIMD(on bool) {
	simd, micro, fewRows = on, &portable, 0
	if on {
		micro, fewRows = &avx2, 4
	}
	if on && haveAVX512 {
		micro = &avx512
	}
}

// Both are the same arithmetic, hence the same bits.
var (
	avx2   = microKernel{name: "float32-fma", rows: 6, cols: 16, tile: tileAVX2}
	avx512 = microKernel{name: "float32-fma", rows: 12, cols: 32, tile: tileAVX512}
)

// tileAVX2 picks the kernel for the number of rows.
func tileAVX2(rows, k int, a []float32, row, col int, b []float32, width int, c []float32, stride int, acc bool) {
	switch rows {
	case 1:
		tile1AVX2(k, &a[0], row, col, &b[0], width, &c[0], stride, acc)
	case 2:
		tile2AVX2(k, &a[0], row, col, &b[0], width, &c[0], stride, acc)
	case 3:
		tile3AVX2(k, &a[0], row, col, &b[0], width, &c[0], stride, acc)
	case 4:
		tile4AVX2(k, &a[0], row, col, &b[0], width, &c[0], stride, acc)
	case 5:
		tile5AVX2(k, &a[0], row, col, &b[0], width, &c[0], stride, acc)
	case 6:
		tile6AVX2(k, &a[0], row, col, &b[0], width, &c[0], stride, acc)
	}
}

// tileAVX512 picks the kernel for the number of rows.
func tileAVX512(rows, k int, a []float32, row, col int, b []float32, width int, c []float32, stride int, acc bool) {
	switch rows {
	case 1:
		tile1AVX512(k, &a[0], row, col, &b[0], width, &c[0], stride, acc)
	case 2:
		tile2AVX512(k, &a[0], row, col, &b[0], width, &c[0], stride, acc)
	case 3:
		tile3AVX512(k, &a[0], row, col, &b[0], width, &c[0], stride, acc)
	case 4:
		tile4AVX512(k, &a[0], row, col, &b[0], width, &c[0], stride, acc)
	case 5:
		tile5AVX512(k, &a[0], row, col, &b[0], width, &c[0], stride, acc)
	case 6:
		tile6AVX512(k, &a[0], row, col, &b[0], width, &c[0], stride, acc)
	case 7:
		tile7AVX512(k, &a[0], row, col, &b[0], width, &c[0], stride, acc)
	case 8:
		tile8AVX512(k, &a[0], row, col, &b[0], width, &c[0], stride, acc)
	case 9:
		tile9AVX512(k, &a[0], row, col, &b[0], width, &c[0], stride, acc)
	case 10:
		tile10AVX512(k, &a[0], row, col, &b[0], width, &c[0], stride, acc)
	case 11:
		tile11AVX512(k, &a[0], row, col, &b[0], width, &c[0], stride, acc)
	case 12:
		tile12AVX512(k, &a[0], row, col, &b[0], width, &c[0], stride, acc)
	}
}

// packRows transposes a panel eight rows and four k's at a time; the last ones
// overlap those before them, and less is left to Go.
func packRows(dst, src, add []float32, stride, n, k int) {
	if !simd || n < 8 || k < 4 {
		packRowsGo(dst, src, add, stride, n, k)
		return
	}
	for j := 0; j < n; j += 8 {
		j = min(j, n-8)
		packEightRows(dst[j:], src, add, j*stride, stride, k&^3)
		if k%4 != 0 {
			packEightRows(dst[(k-4)*micro.cols+j:], src, add, j*stride+k-4, stride, 4)
		}
	}
}

func packEightRows(dst, src, add []float32, at, stride, k int) {
	if add == nil {
		packRowsAVX2(&dst[0], &src[at], stride, micro.cols, k)
	} else {
		packRowsAddAVX2(&dst[0], &src[at], &add[at], stride, micro.cols, k)
	}
}

// packCols copies a panel sixteen columns at a time, also those beyond n that lie
// inside the operand's memory.
func packCols(dst, src, add []float32, stride, n, k int) {
	if !simd {
		packColsGo(dst, src, add, stride, n, k)
		return
	}
	const width = 16
	for j := 0; j < n; j += width {
		size := len(src) - j
		if add != nil {
			size = min(size, len(add)-j)
		}
		whole := 0 // rows that have so many columns
		if size >= width {
			whole = min(k, (size-width)/stride+1)
		}
		switch {
		case whole == 0:
		case add == nil:
			packColsAVX2(&dst[j], &src[j], stride, micro.cols, whole)
		default:
			packColsAddAVX2(&dst[j], &src[j], &add[j], stride, micro.cols, whole)
		}
		if at := whole*stride + j; whole < k {
			more := add
			if more != nil {
				more = more[at:]
			}
			packColsGo(dst[whole*micro.cols+j:], src[at:], more, stride, min(width, n-j), k-whole)
		}
	}
}

// packLeft packs rows of a tile of Aᵀ; it copies 8 or 16 columns where they exist.
func packLeft(dst, src []float32, stride, rows, k int) {
	wide, pack := 8, packLeft8AVX2
	if micro.rows > 8 {
		wide, pack = 16, packLeft16AVX2
	}
	whole := 0 // k's that have so many columns
	if simd && len(src) >= wide {
		whole = min(k, (len(src)-wide)/stride+1)
		pack(&dst[0], &src[0], stride, micro.rows, whole)
	}
	if whole < k {
		packLeftGo(dst[whole*micro.rows:], src[whole*stride:], stride, rows, k-whole)
	}
}

// fewTile multiplies some of so many rows of A by fewCols rows of B, and returns how
// many; k is a multiple of 4.
func fewTile(rows, k int, a []float32, row int, b []float32, width int, c []float32, stride int, acc bool) int {
	switch {
	case rows >= 4:
		few4AVX2(k, &a[0], row, &b[0], width, &c[0], stride, acc)
		return 4
	case rows >= 2:
		few2AVX2(k, &a[0], row, &b[0], width, &c[0], stride, acc)
		return 2
	}
	few1AVX2(k, &a[0], row, &b[0], width, &c[0], stride, acc)
	return 1
}

// sumRows sets dst[j*width+p] = src[j*stride+p] + add[j*stride+p], j < fewCols and
// p < k, a multiple of 4.
func sumRows(dst, src, add []float32, stride, width, k int) {
	sumRowsAVX2(&dst[0], &src[0], &add[0], stride, width, k)
}

// prefetch asks for cache lines from the beginning of data on.
func prefetch(data []float32, lines int) {
	if simd {
		prefetchAVX2(&data[0], lines)
	}
}
