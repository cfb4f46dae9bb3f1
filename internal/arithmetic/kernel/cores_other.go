//go:build !linux

package kernel

import "runtime"

// yield lets another goroutine have this processor, if one wants it.
func yield() { runtime.Gosched() }

func core() int { return 0 }

func leave(int) {}
