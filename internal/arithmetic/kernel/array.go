package kernel

import "fmt"

// Array is a sequence of float32 or bfloat16 numbers. One of its two slices is nil.
type Array struct {
	F32  []float32
	BF16 []uint16 // each element is the upper half of a float32
}

// NewArray returns n zeros in the given precision.
func NewArray(n int, held Precision) Array {
	switch held {
	case Float32:
		return Array{F32: make([]float32, n)}
	case BF16:
		return Array{BF16: make([]uint16, n)}
	}
	panic(fmt.Sprintf("kernel: NewArray: precision is %q, expected %s or %s",
		string(held), Float32, BF16))
}

// Len returns the number of elements.
func (a Array) Len() int { return max(len(a.F32), len(a.BF16)) }

// Bytes returns the memory of the elements, in bytes.
func (a Array) Bytes() int64 { return 4*int64(len(a.F32)) + 2*int64(len(a.BF16)) }

// Range returns elements lo to hi-1. The result shares memory with a.
func (a Array) Range(lo, hi int) Array {
	if a.BF16 != nil {
		return Array{BF16: a.BF16[lo:hi]}
	}
	return Array{F32: a.F32[lo:hi]}
}

// At returns element i.
func (a Array) At(i int) float32 {
	if a.BF16 != nil {
		return widenBF16(a.BF16[i])
	}
	return a.F32[i]
}

// Clear sets all elements to zero.
func (a Array) Clear() {
	clear(a.F32)
	clear(a.BF16)
}

// CopyFrom copies an array of the same length and precision into a.
func (a Array) CopyFrom(from Array) {
	sameLength("Array.CopyFrom", len(a.F32), len(from.F32))
	sameLength("Array.CopyFrom", len(a.BF16), len(from.BF16))
	copy(a.F32, from.F32)
	copy(a.BF16, from.BF16)
}

func (a Array) load(dst []float32) {
	widenGo(dst, a.BF16)
	copy(dst, a.F32)
}

func widenGo(dst []float32, src []uint16) {
	for i, h := range src {
		dst[i] = widenBF16(h)
	}
}

func addWidenGo(dst []float32, src []uint16) {
	for i, h := range src {
		dst[i] += widenBF16(h)
	}
}

func sameLength(name string, a, b int) {
	if a != b {
		panic(fmt.Sprintf("kernel: %s: lengths %d and %d differ", name, a, b))
	}
}
