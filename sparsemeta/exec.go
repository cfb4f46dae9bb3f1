package sparsemeta

import "github.com/lmserve/lmserve/internal/arithmetic/kernel"

// Exec is what operations compute with: threads, the instructions of the processor, and scratch.
// One Exec serves one caller at a time, and allocates nothing once every kind of operation has
// run. Its members that matter here are
//
//	SetThreads(n int)  how many threads the next operations use, 1 to those it was made with
//	Close()            ends its goroutines
//	Vectors            its functions of rows of numbers
//
// Results never depend on the number of threads. It is the same type as the Exec of package txl:
// an Exec that either package made serves both.
type Exec = kernel.Exec

// NewExec returns an Exec of up to the given number of threads, the caller's among them. It
// computes in float32 by the widest instructions that this machine has.
func NewExec(threads int) *Exec { return kernel.NewExec(threads) }

// Vectors are the functions of rows of numbers of an Exec, by its instructions.
type Vectors = kernel.Vectors

// Array holds numbers in float32 or in bfloat16: the slice F32 or BF16, the other one being nil.
// Its method At(i int) gives element i as a float32, Len their number.
type Array = kernel.Array

// Precision is how a State holds its numbers.
type Precision = kernel.Precision

// The precisions: BF16 takes half the memory, and rounds at random what is averaged.
const (
	Float32 = kernel.Float32
	BF16    = kernel.BF16
)
