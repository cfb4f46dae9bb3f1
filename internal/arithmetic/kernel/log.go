package kernel

//go:generate sh -c "cd _generate && go run . log -out ../log_amd64.s -stubs ../log_amd64.go -pkg kernel"

// Log sets dst[i] = ln(src[i]) with a relative error below 1.2e-7. It returns -Inf for 0, and also
// for subnormal numbers, since computing with them is slow. It returns NaN for NaN and negative
// numbers, and +Inf for +Inf. dst may be src. Results are bit-identical on every machine, since no
// product is fused with a sum.
func (v Vectors) Log(dst, src []float32) {
	sameLength("Log", len(dst), len(src))
	v.log(dst, src)
}
