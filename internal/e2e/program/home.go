// Package program is for tests that use lmserve as a program. The package builds the program once
// for all of them, starts it, and removes what killed tests have left.
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

// Main runs the tests of a package and returns the exit code. The tests have a home of their own,
// which keeps them away from the user's keys and configurations. All temporary files are in there,
// so that nothing stays when the tests have ended; what tests leave that were killed goes when the
// next ones begin. Goroutines that tests leave are a failure.
func Main(m *testing.M) (code int) {
	home, err := Folder(os.TempDir(), "lmserve-home-")
	if err == nil {
		err = os.Chmod(home, 0o711) // PostgreSQL, which is another user, has its socket in there
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
	http.DefaultClient.CloseIdleConnections() // of the tests themselves
	err = errors.Join(os.RemoveAll(home), goleak.Find())
	if code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	return code
}

// outside is the folder for temporary files as Main found it.
var outside string

// Folder makes a folder for the temporary files of this process. The number of the process is in
// the name, after a prefix; folders of this prefix whose processes have gone are removed.
func Folder(parent, prefix string) (dir string, err error) {
	left, err := filepath.Glob(filepath.Join(parent, prefix+"*"))
	if err != nil {
		return "", err
	}
	for _, dir := range left {
		number, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), prefix), "-")
		if pid, err := strconv.Atoi(number); err == nil && !Runs(pid) {
			_ = os.RemoveAll(dir) // another process may be at it, too
		}
	}
	return os.MkdirTemp(parent, fmt.Sprintf("%s%d-", prefix, os.Getpid()))
}

// Runs reports whether there is a process of this number.
func Runs(pid int) bool {
	p, err := os.FindProcess(pid)
	return err == nil && !errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
}

// Keep moves a folder of a test that has failed to where it stays, and returns its new path.
func Keep(dir string) (path string, err error) {
	kept, err := os.MkdirTemp(outside, "lmserve-kept-")
	if err != nil {
		return dir, err
	}
	// os.Rename replaces no folder, not even an empty one
	path = filepath.Join(kept, filepath.Base(dir))
	return path, os.Rename(dir, path)
}
