package program

import (
	"os/exec"
	"syscall"
)

// Command is like exec.Command, but the kernel kills the new process when the current process dies.
func Command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}
