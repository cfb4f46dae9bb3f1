package txl

import "github.com/lmserve/lmserve/internal/arithmetic/kernel"

// Exec holds the threads, the instruction set and the scratch memory of operations. One Exec
// serves one caller at a time. Once every kind of operation has run, it allocates nothing more. Its
// relevant methods are
//
//	SetThreads(n int)  sets the number of threads, at most the number given to NewExec
//	Close()            ends the goroutines
//
// Results never depend on the number of threads. Package sparsemeta has the same type, so an Exec
// of either package works in both.
type Exec = kernel.Exec

// NewExec returns an Exec with up to the given number of threads, including the caller's thread. It
// computes in float32 with the widest instructions of this machine.
func NewExec(threads int) *Exec { return kernel.NewExec(threads) }
