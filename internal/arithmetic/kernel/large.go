package kernel

// NewLarge returns n zeros in huge pages, where the system has them. Numbers that every chunk
// reads from memory then arrive faster.
func NewLarge(n int) []float32 {
	x := make([]float32, n)
	adviseHuge(x)
	return x
}
