package kernel

func dotRowsGo(dst, x, w []float32, n, stride int) {
	for i := range dst {
		var lanes [8]float32
		dotGo(x[i*n:i*n+n], w[i*stride:i*stride+n], &lanes)
		dst[i] = fold(&lanes)
	}
}

func axpyRowsGo(y, a, x []float32) {
	for i, by := range a {
		axpyGo(y, x[i*len(y):(i+1)*len(y)], by)
	}
}

// fold adds eight lanes in the order of the assembly, so that the results are bit-identical.
func fold(l *[8]float32) float32 {
	return ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]))
}
