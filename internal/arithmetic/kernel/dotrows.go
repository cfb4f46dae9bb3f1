package kernel

// AxpyRows adds a[i] times row i of x [rows,n] to y [n], for each i in order. The result is
// bit-identical to one call of Axpy per row.
func (v Vectors) AxpyRows(y, a, x []float32) {
	sameLength("AxpyRows", len(x), len(a)*len(y))
	if !v.axpyRows(y, a, x) {
		axpyRowsGo(y, a, x)
	}
}

// DotRows sets dst[i] to the scalar product of row i of x [rows,n] and w[i*stride:][:n]. The
// results are bit-identical to those of Dot. With stride 0 all rows are multiplied by w[:n].
func (v Vectors) DotRows(dst, x, w []float32, n, stride int) {
	sameLength("DotRows", len(x), len(dst)*n)
	if len(dst) > 0 {
		sameLength("DotRows", len(w), (len(dst)-1)*stride+n)
	}
	if !v.dotRows(dst, x, w, n, stride) {
		dotRowsGo(dst, x, w, n, stride)
	}
}
