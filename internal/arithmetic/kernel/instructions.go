package kernel

import "golang.org/x/sys/cpu"

// Instructions is the instruction set with which an Exec computes. AVX512 includes AVX2, which
// includes Portable.
type Instructions uint8

// The instruction sets. AVX2 and AVX512 both include FMA, and give bit-identical results. AVX512
// requires the extensions F, BW, DQ and VL, which all processors with AVX-512 have, except Xeon
// Phi.
const (
	Widest   Instructions = iota // the widest set that this machine has
	Portable                     // only instructions that Go compiles to
	AVX2
	AVX512
)

// String returns the name of the set.
func (i Instructions) String() string {
	return [...]string{"widest", "portable", "AVX2", "AVX512"}[i]
}

// Vectors has the vector functions (vector.go, norm.go) for one instruction set. The zero value
// uses portable code. Every Exec has a Vectors.
type Vectors struct{ set Instructions }

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

func (i Instructions) micro() *microKernel {
	switch i {
	case AVX2:
		return &avx2
	case AVX512:
		return &avx512
	}
	return &portable
}

// fewRows returns the maximum number of rows of A that fewTile supports. It returns 0 if the
// instruction set has no fewTile.
func (i Instructions) fewRows() int {
	if i < AVX2 {
		return 0
	}
	return 4
}
