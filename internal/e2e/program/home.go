// Package program is for tests that run lmserve as a program. It builds the program once for all of
// them, and starts it. It also removes files that earlier tests left behind when they were killed.
package program

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// Main runs the tests of a package and returns the exit code. The tests have a separate home
// folder, so that they do not use the user's keys and configurations. All temporary files are in
// this folder, which Main removes at the end. Main also removes such folders of tests that were
// killed. A leaked goroutine is a failure.
func Main(m *testing.M) (code int) {
	home, err := Folder(os.TempDir(), "lmserve-home-")
	if err == nil {
		err = os.Chmod(home, 0o711) // PostgreSQL, which runs as another user, has its socket there
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	outside = os.TempDir()
	for _, name := range []string{"XDG_STATE_HOME", "XDG_CONFIG_HOME", "TMPDIR"} {
		os.Setenv(name, home)
	}
	code = m.Run()
	http.DefaultClient.CloseIdleConnections() // the tests' own connections are no leak
	err = errors.Join(os.RemoveAll(home), goleak.Find())
	if code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	return code
}

// outside is the original folder for temporary files.
var outside string

// Folder makes a folder for the temporary files of this process. Its name is a prefix with the
// process id. Folders with this prefix whose processes have ended are removed.
func Folder(parent, prefix string) (dir string, err error) {
	left, err := filepath.Glob(filepath.Join(parent, prefix+"*"))
	if err != nil {
		return "", err
	}
	for _, dir := range left {
		number, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), prefix), "-")
		if pid, err := strconv.Atoi(number); err == nil && !Runs(pid) {
			_ = os.RemoveAll(dir) // another process may be removing it, too
		}
	}
	return os.MkdirTemp(parent, fmt.Sprintf("%s%d-", prefix, os.Getpid()))
}

// Runs reports whether a process with this id exists.
func Runs(pid int) bool {
	p, err := os.FindProcess(pid)
	return err == nil && !errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
}

// Keep moves the folder of a failed test to a place where it stays, and returns the new path.
func Keep(dir string) (path string, err error) {
	kept, err := os.MkdirTemp(outside, "lmserve-kept-")
	if err != nil {
		return dir, err
	}
	// os.Rename replaces no folder, not even an empty one
	path = filepath.Join(kept, filepath.Base(dir))
	return path, os.Rename(dir, path)
}
