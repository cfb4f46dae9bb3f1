package kernel

//go:generate sh -c "cd _generate && go run . adam -out ../adam_amd64.s -stubs ../adam_amd64.go -pkg kernel"

// adam updates the first n weights in assembly and returns n. The caller updates the remaining
// weights.
func (v Vectors) adam(a *Adam, w, m, s, g []float32) (n int) {
	n = v.eights(len(w))
	if n > 0 {
		adamAVX2(&w[0], &m[0], &s[0], &g[0], n, a.Scale, a.Beta1, 1-a.Beta1, a.Beta2, 1-a.Beta2,
			a.Rate, a.Root, a.Eps)
	}
	return n
}
