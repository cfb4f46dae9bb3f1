package kernel

//go:generate sh -c "cd _generate && go run . dot -out ../dotrows_amd64.s -stubs ../dotrows_amd64.go -pkg kernel"

// dotRows computes the products in assembly. It returns false, and does nothing, if there is no
// assembly for these operands.
func (v Vectors) dotRows(dst, x, w []float32, n, stride int) bool {
	if v.set < AVX2 || n == 0 || n%8 != 0 || len(dst) == 0 {
		return false
	}
	dotRowsAVX2(&dst[0], &x[0], &w[0], len(dst), n, stride)
	return true
}

// axpyRows adds the rows in assembly. It returns false, and does nothing, if there is no assembly
// for these operands.
func (v Vectors) axpyRows(y, a, x []float32) bool {
	if v.set < AVX2 || len(y) == 0 || len(y)%8 != 0 || len(a) == 0 {
		return false
	}
	axpyRowsAVX2(&y[0], &a[0], &x[0], len(a), len(y))
	return true
}
