package kernel

// NewLarge returns n zeros, in huge pages if the system has them. Huge pages speed up reading large
// arrays from memory.
func NewLarge(n int) []float32 {
	x := make([]float32, n)
	adviseHuge(x)
	return x
}
