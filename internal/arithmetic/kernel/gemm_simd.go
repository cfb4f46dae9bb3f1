package kernel

//go:generate sh -c "cd _generate && go run . gemm -out ../gemm_amd64.s -stubs ../gemm_amd64.go -pkg kernel"

// The micro-kernels for AVX2 and AVX-512 do the same operations in the same order, so their results
// are bit-identical.
var (
	avx2 = microKernel{name: "float32-fma", rows: 6, cols: 16, tile: byRows(
		tile1AVX2, tile2AVX2, tile3AVX2, tile4AVX2, tile5AVX2, tile6AVX2,
	)}
	avx512 = microKernel{name: "float32-fma", rows: 12, cols: 32, tile: byRows(
		tile1AVX512, tile2AVX512, tile3AVX512, tile4AVX512, tile5AVX512, tile6AVX512,
		tile7AVX512, tile8AVX512, tile9AVX512, tile10AVX512, tile11AVX512, tile12AVX512,
	)}
)

// byRows makes a microKernel.tile function from a list of kernels for one row, two rows, and so on.
func byRows(
	kernels ...func(k int, a *float32, row, col int, b *float32, width int, c *float32, stride int,
		acc bool),
) func(rows, k int, a []float32, row, col int, b []float32, width int, c []float32, stride int,
	acc bool) {
	return func(rows, k int, a []float32, row, col int, b []float32, width int, c []float32,
		stride int, acc bool) {
		kernels[rows-1](k, &a[0], row, col, &b[0], width, &c[0], stride, acc)
	}
}
