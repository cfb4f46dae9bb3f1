package kernel

// Instructions is a set of the processor's instructions, by which an Exec computes. Each set
// has those before it.
type Instructions uint8

// The sets. AVX2 and AVX512 are both with FMA, and give the same bits. AVX512 is its parts F, BW,
// DQ and VL, which all processors have that have it, but for Xeon Phi.
const (
	Widest   Instructions = iota // the last set that this machine has
	Portable                     // none but what Go compiles to
	AVX2
	AVX512
)

// String names the set.
func (i Instructions) String() string {
	return [...]string{"widest", "portable", "AVX2", "AVX512"}[i]
}

// Vectors are the functions of rows of numbers (vector.go, norm.go), by one set of
// instructions. The zero value is portable. Every Exec has its own.
type Vectors struct{ set Instructions }
