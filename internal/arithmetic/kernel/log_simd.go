package kernel

//go:generate sh -c "cd _generate && go run . log -out ../log_amd64.s -stubs ../log_amd64.go -pkg kernel"

// log does as many of the elements as the assembly takes, and returns how many.
func (v Vectors) log(dst, src []float32) int {
	n := v.eights(len(src))
	if n > 0 {
		logAVX2(&dst[0], &src[0], n)
	}
	return n
}
