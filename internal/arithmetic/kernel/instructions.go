package kernel

import "golang.org/x/sys/cpu"

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

// detect is the widest set of instructions that this machine has.
func detect() Instructions {
	switch {
	case !hasAssembly || !cpu.X86.HasAVX2 || !cpu.X86.HasFMA:
		return Portable
	case !cpu.X86.HasAVX512F || !cpu.X86.HasAVX512BW || !cpu.X86.HasAVX512DQ ||
		!cpu.X86.HasAVX512VL:
		return AVX2
	}
	return AVX512
}

// micro is the set's kernel.
func (i Instructions) micro() *microKernel {
	switch i {
	case AVX2:
		return &avx2
	case AVX512:
		return &avx512
	}
	return &portable
}

// fewRows is up to how many rows fewTile multiplies: 0 if it cannot.
func (i Instructions) fewRows() int {
	if i < AVX2 {
		return 0
	}
	return 4
}
