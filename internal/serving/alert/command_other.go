//go:build !unix

package alert

import "os/exec"

// killGroup does nothing: this system has no groups of processes.
func killGroup(*exec.Cmd) {}
