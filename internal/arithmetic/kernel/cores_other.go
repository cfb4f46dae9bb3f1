//go:build !linux

package kernel

import "runtime"

// yield offers the current processor to other goroutines.
func yield() { runtime.Gosched() }

func core() int { return 0 }

func leave(int) {}
