//go:build !linux

package program

import "os/exec"

// Command is exec.Command. On Linux the process also dies with this one.
func Command(name string, args ...string) *exec.Cmd { return exec.Command(name, args...) }
