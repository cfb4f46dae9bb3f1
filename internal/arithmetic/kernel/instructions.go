package kernel

import "golang.org/x/sys/cpu"

// Instructions is the instruction set by which an Exec computes. Each set includes the sets before
// it in the list.
type Instructions uint8

// The sets. AVX2 and AVX512 both include FMA, and give the same bits. AVX512 requires F, BW, DQ
// and VL, which all processors with AVX-512 have, except Xeon Phi.
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

// Vectors has the functions on rows of numbers (vector.go, norm.go) in one instruction set. The
// zero value uses portable code. Every Exec has one.
type Vectors struct{ set Instructions }

// detect returns the widest instruction set of this machine.
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

// micro returns the micro-kernel of the set.
func (i Instructions) micro() *microKernel {
	switch i {
	case AVX2:
		return &avx2
	case AVX512:
		return &avx512
	}
	return &portable
}

// fewRows returns the maximum number of rows of A that fewTile takes, or 0 if the set has no
// fewTile.
func (i Instructions) fewRows() int {
	if i < AVX2 {
		return 0
	}
	return 4
}
