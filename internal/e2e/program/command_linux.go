package program

import (
	"os/exec"
	"syscall"
)

// Command is exec.Command for a process that dies with this one, even if this one is killed.
func Command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}
