//go:build unix

package main

import (
	"math"
	"syscall"
)

// descriptorsMax returns how many files and connections this process may have open.
func descriptorsMax() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return descriptorsUnknown
	}
	return int(min(uint64(limit.Cur), math.MaxInt32)) //nolint:gosec // the number is small
}
