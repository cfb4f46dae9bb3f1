//go:build unix

package program

import (
	"bytes"
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// AsTested returns flags for go build: the build tags of this test, and additional tags. With equal
// tags the program and this test compute the same bits. If this test has the race detector, the
// program has the race detector, too, and prints data races to stderr.
func AsTested(t testing.TB, tags ...string) (flags []string) {
	info, ok := debug.ReadBuildInfo()
	require.True(t, ok, "a test binary knows how it was built")
	for _, s := range info.Settings {
		switch s.Key {
		case "-tags":
			tags = append(tags, s.Value)
		case "-race":
			flags = append(flags, s.Key+"="+s.Value)
		}
	}
	if len(tags) > 0 {
		flags = append(flags, "-tags="+strings.Join(tags, ","))
	}
	return flags
}

// Exit codes of lmserve.
const (
	Failure = 1
	Usage   = 2
)

var builds = struct {
	sync.Mutex
	programs map[string]string
}{programs: map[string]string{}}

// Built returns the path of lmserve, built with these flags for go build. All test packages share
// the programs in the folder bin/e2e of the source tree, which git ignores. Therefore an unchanged
// program is not linked again. `make clean` removes the folder bin.
func Built(t testing.TB, flags ...string) string {
	builds.Lock()
	defer builds.Unlock()
	key := cmp.Or(strings.Trim(strings.NewReplacer("=", "-", ",", "-").Replace(strings.Join(flags,
		"")), "-"), "plain")
	if builds.programs[key] == "" {
		root := root(t)
		dir := filepath.Join(root, "bin", "e2e", key)
		require.NoError(t, os.MkdirAll(dir, 0o755))
		lock, err := os.Create(filepath.Join(dir, "lock"))
		require.NoError(t, err)
		defer lock.Close() // Close also unlocks the file
		require.NoError(t, syscall.Flock(int(lock.Fd()), syscall.LOCK_EX))
		path := filepath.Join(dir, "lmserve")
		args := slices.Concat([]string{"build", "-C", root, "-buildvcs=false", "-ldflags=-s -w",
			"-o", path},
			flags, []string{"./cmd/lmserve"})
		out, err := exec.Command("go", args...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		builds.programs[key] = path
	}
	return builds.programs[key]
}

func root(t testing.TB) string {
	dir, err := os.Getwd()
	require.NoError(t, err)
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
	}
	require.Fail(t, "the test does not run in the folder of a module")
	return ""
}

// Run runs a program to its end, and returns its output and exit code.
func Run(t testing.TB, path string, args ...string) (stdout, stderr string, code int) {
	var out, errs bytes.Buffer
	cmd := Command(path, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); cmd.ProcessState == nil {
		require.NoError(t, err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// Must runs a program to its end and returns its output. The test fails unless the exit code is 0.
func Must(t testing.TB, path string, args ...string) (stdout string) {
	stdout, stderr, code := Run(t, path, args...)
	require.Zero(t, code, "%v: %s%s", args, stdout, stderr)
	return stdout
}

// Log returns the beginning of the demo's access log, a real text with structure and repetitions.
func Log(t testing.TB, bytes int) string {
	all, err := os.ReadFile(filepath.Join(root(t), "internal", "lab", "demo", "access.log"))
	require.NoError(t, err)
	return string(all[:bytes])
}

// Number returns the number in an environment variable, or `otherwise` if it is not set.
func Number(t testing.TB, variable string, otherwise int64) int64 {
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseInt(text, 10, 64)
	require.NoError(t, err, variable)
	return n
}
