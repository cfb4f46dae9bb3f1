//go:build !noasm

package kernel

import "golang.org/x/sys/cpu"

//go:generate sh -c "cd _generate && go run . gemm -out ../gemm_amd64.s -stubs ../gemm_amd64.go -pkg kernel"

// detect is the widest set of instructions that this machine has.
func detect() Instructions {
	switch {
	case !cpu.X86.HasAVX2 || !cpu.X86.HasFMA:
		return Portable
	case !cpu.X86.HasAVX512F || !cpu.X86.HasAVX512BW || !cpu.X86.HasAVX512DQ || !cpu.X86.HasAVX512VL:
		return AVX2
	}
	return AVX512
}

// micro is the set's kernel.
func (i Instructions) micro() *microKernel {
	switch i {
	case AVX2:
		return &avx2
	case AVX512:
		return &avx512
	}
	return &portable
}

// fewRows is up to how many rows fewTile multiplies: 0 if it cannot.
func (i Instructions) fewRows() int {
	if i < AVX2 {
		return 0
	}
	return 4
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
