package program

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

// TestKilledChild leaves a process and a file; TestKilledTestLeavesNothing kills it.
func TestKilledChild(t *testing.T) {
	if os.Getenv("LMSERVE_TEST_KILLED") == "" {
		t.Skip("it is run by another test")
	}
	require.NoError(t, os.WriteFile(filepath.Join(t.TempDir(), "file"), []byte("text"), 0o600))
	process := Command("sleep", "600")
	require.NoError(t, process.Start())
	fmt.Println("process", process.Process.Pid)
	_ = process.Wait()
}

func TestKilledTestLeavesNothing(t *testing.T) {
	temporary := t.TempDir()
	tests := func(of string) *exec.Cmd {
		cmd := Command(os.Args[0], "-test.run", of)
		cmd.Env = append(os.Environ(), "TMPDIR="+temporary, "LMSERVE_TEST_KILLED=1")
		return cmd
	}
	child := tests("^TestKilledChild$")
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	t.Cleanup(func() { _ = child.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	var process int
	_, err = fmt.Sscanf(line, "process %d", &process)
	require.NoError(t, err, line)
	require.True(t, lives(process))

	require.NoError(t, child.Process.Kill())
	require.Error(t, child.Wait())
	require.Eventually(t, func() bool { return !lives(process) }, time.Minute, time.Millisecond)
	left, err := filepath.Glob(filepath.Join(temporary, "*"))
	require.NoError(t, err)
	require.Len(t, left, 1)
	require.Contains(t, left[0], fmt.Sprintf("lmserve-home-%d-", child.Process.Pid))

	said, err := tests("^$").CombinedOutput()
	require.NoError(t, err, "%s", said)
	left, err = filepath.Glob(filepath.Join(temporary, "*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// lives reports whether a process runs. A dead process stays in the state Z (zombie) until its
// parent waits for it.
func lives(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, _ := strings.Cut(string(stat), ") ")
	return err == nil && !strings.HasPrefix(state, "Z")
}

func TestFolderRemovesThoseOfDeadProcessesOnly(t *testing.T) {
	parent := t.TempDir()
	ended := Command("true")
	require.NoError(t, ended.Run())
	for _, name := range []string{
		fmt.Sprintf("it-%d-1", ended.Process.Pid), fmt.Sprintf("it-%d-1", os.Getppid()), "it-x",
		"other-1",
	} {
		require.NoError(t, os.MkdirAll(filepath.Join(parent, name, "below"), 0o700))
	}
	dir, err := Folder(parent, "it-")
	require.NoError(t, err)
	left, err := filepath.Glob(filepath.Join(parent, "*"))
	require.NoError(t, err)
	require.ElementsMatch(t, []string{
		dir, filepath.Join(parent, fmt.Sprintf("it-%d-1", os.Getppid())),
		filepath.Join(parent, "it-x"), filepath.Join(parent, "other-1"),
	}, left)
}

func TestKeepMovesAFolder(t *testing.T) {
	outside = t.TempDir()
	defer func() { outside = os.TempDir() }()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "text"), []byte("kept"), 0o600))
	kept, err := Keep(dir)
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(kept, "text"))
	require.NoDirExists(t, dir)
}
