package kernel

//go:generate sh -c "cd _generate && go run . dot -out ../dotrows_amd64.s -stubs ../dotrows_amd64.go -pkg kernel"

// dotRows computes the products in assembly and returns true. If the assembly does not support the
// rows' length, it does nothing and returns false.
func (v Vectors) dotRows(dst, x, w []float32, n, stride int) bool {
	if v.set < AVX2 || n == 0 || n%8 != 0 || len(dst) == 0 {
		return false
	}
	dotRowsAVX2(&dst[0], &x[0], &w[0], len(dst), n, stride)
	return true
}

// axpyRows adds the rows in assembly and returns true. If the assembly does not support the rows'
// length, it does nothing and returns false.
func (v Vectors) axpyRows(y, a, x []float32) bool {
	if v.set < AVX2 || len(y) == 0 || len(y)%8 != 0 || len(a) == 0 {
		return false
	}
	axpyRowsAVX2(&y[0], &a[0], &x[0], len(a), len(y))
	return true
}
