//go:build !linux

package session

// machineMemory returns 0, because the size is unknown on this operating system.
func machineMemory() int64 { return 0 }
