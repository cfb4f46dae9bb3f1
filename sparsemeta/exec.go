package sparsemeta

import "github.com/lmserve/lmserve/internal/arithmetic/kernel"

// Exec holds the threads, the instruction set and the scratch memory of operations. One Exec
// serves one caller at a time, and allocates nothing once every kind of operation has run. Its
// relevant members are
//
//	SetThreads(n int)  sets the number of threads; n is at most NewExec's threads
//	Close()            ends the goroutines
//	Vectors            has functions on rows of numbers
//
// Results never depend on the number of threads. Package txl has the same type, so both packages
// can share an Exec.
type Exec = kernel.Exec

// NewExec returns an Exec of up to the given number of threads, including the caller's thread. The
// Exec computes in float32 with the widest instructions of this machine.
func NewExec(threads int) *Exec { return kernel.NewExec(threads) }

// Vectors are an Exec's functions on rows of numbers, in its instruction set.
type Vectors = kernel.Vectors

// Array holds numbers in float32 (slice F32) or bfloat16 (slice BF16); the unused slice is nil. The
// method At(i int) returns element i as a float32, and Len returns the number of elements.
type Array = kernel.Array

// Precision is the type of a State's numbers.
type Precision = kernel.Precision

// The precisions. BF16 needs half the memory of Float32, and rounds the gradient averages
// stochastically.
const (
	Float32 = kernel.Float32
	BF16    = kernel.BF16
)
