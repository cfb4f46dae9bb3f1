// Package program builds lmserve once for all tests, and runs it as a program. It also removes
// files of earlier tests that were killed.
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
// folder, so that they do not use the user's keys and configurations. This folder also holds all
// temporary files, and Main removes it after the tests. Main also removes the home folders of
// killed tests. A leaked goroutine is a failure.
func Main(m *testing.M) (code int) {
	home, err := Folder(os.TempDir(), "lmserve-home-")
	if err == nil {
		// PostgreSQL runs as another user and has its socket in this folder
		err = os.Chmod(home, 0o711)
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
	// idle connections would be reported as leaked goroutines
	http.DefaultClient.CloseIdleConnections()
	err = errors.Join(os.RemoveAll(home), goleak.Find())
	if code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	return code
}

// outside is the folder for temporary files before Main replaces it.
var outside string

// Folder makes a folder for the temporary files of this process. The folder's name begins with the
// prefix and the process id. Folder removes the folders with this prefix whose processes have
// ended.
func Folder(parent, prefix string) (dir string, err error) {
	left, err := filepath.Glob(filepath.Join(parent, prefix+"*"))
	if err != nil {
		return "", err
	}
	for _, dir := range left {
		number, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), prefix), "-")
		if pid, err := strconv.Atoi(number); err == nil && !Runs(pid) {
			// errors are ignored, because another process may be removing this folder
			_ = os.RemoveAll(dir)
		}
	}
	return os.MkdirTemp(parent, fmt.Sprintf("%s%d-", prefix, os.Getpid()))
}

// Runs reports whether a process with this id exists.
func Runs(pid int) bool {
	p, err := os.FindProcess(pid)
	return err == nil && !errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
}

// Keep moves the folder of a failed test out of the folder that Main removes, and returns the new
// path.
func Keep(dir string) (path string, err error) {
	kept, err := os.MkdirTemp(outside, "lmserve-kept-")
	if err != nil {
		return dir, err
	}
	// os.Rename does not replace an existing folder, so the new path must not exist.
	path = filepath.Join(kept, filepath.Base(dir))
	return path, os.Rename(dir, path)
}
