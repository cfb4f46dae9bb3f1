package kernel

// NewLarge returns n zeros in memory of which the system is asked to make huge pages, where it
// knows them: numbers that come from memory in every chunk then arrive faster.
func NewLarge(n int) []float32 {
	x := make([]float32, n)
	adviseHuge(x)
	return x
}
