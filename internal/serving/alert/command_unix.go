//go:build unix

package alert

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// killGroup makes the end of a command's context also kill the children of the command.
func killGroup(run *exec.Cmd) {
	run.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	run.Cancel = func() error {
		err := syscall.Kill(-run.Process.Pid, syscall.SIGKILL)
		if errors.Is(err, syscall.ESRCH) {
			return os.ErrProcessDone
		}
		return err
	}
}
