//go:build !linux

package session

// machineMemory returns 0: the memory is not known here.
func machineMemory() int64 { return 0 }
