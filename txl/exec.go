package txl

import "github.com/lmserve/lmserve/internal/arithmetic/kernel"

// Exec is what operations compute with: threads, the instructions of the processor, and scratch.
// One Exec serves one caller at a time, and allocates nothing once every kind of operation has
// run. Its methods that matter here are
//
//	SetThreads(n int)  how many threads the next operations use, 1 to those it was made with
//	Close()            ends its goroutines
//
// Results never depend on the number of threads. It is the same type as the Exec of package
// sparsemeta: an Exec that either package made serves both.
type Exec = kernel.Exec

// NewExec returns an Exec of up to the given number of threads, the caller's among them. It
// computes in float32 by the widest instructions that this machine has.
func NewExec(threads int) *Exec { return kernel.NewExec(threads) }
