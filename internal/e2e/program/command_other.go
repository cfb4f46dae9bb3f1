//go:build !linux

package program

import "os/exec"

// Command is exec.Command. On Linux, the new process also dies with the current process.
func Command(name string, args ...string) *exec.Cmd { return exec.Command(name, args...) }
