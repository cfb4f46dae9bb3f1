package txl

import "github.com/lmserve/lmserve/internal/arithmetic/kernel"

// Exec holds the threads, the instruction set and the scratch memory of operations. One Exec
// serves one caller at a time, and allocates nothing once every kind of operation has run. Its
// relevant methods are
//
//	SetThreads(n int)  sets the number of threads of later operations, at most NewExec's
//	Close()            ends its goroutines
//
// Results never depend on the number of threads. Package sparsemeta has the same type: an Exec of
// either package serves both.
type Exec = kernel.Exec

// NewExec returns an Exec of up to the given number of threads, including the caller's. It
// computes in float32 with the widest instructions of this machine.
func NewExec(threads int) *Exec { return kernel.NewExec(threads) }
