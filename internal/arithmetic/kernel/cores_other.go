//go:build !linux

package kernel

import "runtime"

func yield() { runtime.Gosched() }

func core() int { return 0 }

func leave(int) {}
