package powercut

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// childFolder is the environment variable with the folder in which TestChild works.
const childFolder = "LMSERVE_TEST_CHILD"

// TestChild is the process that TestEverythingThatAProcessWritesIsRecorded records.
func TestChild(t *testing.T) {
	dir := os.Getenv(childFolder)
	if dir == "" {
		t.Skip("it is run by another test")
	}
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "d"), 0o700))
	var wait sync.WaitGroup
	for n := range 4 {
		wait.Go(func() {
			name := filepath.Join(dir, "d", string(rune('a'+n)))
			f, err := os.Create(name + ".tmp")
			require.NoError(t, err)
			for range 10 {
				_, err = f.WriteString("some text\n")
				require.NoError(t, err)
			}
			_, err = f.WriteAt([]byte("THE"), int64(n))
			require.NoError(t, err)
			require.NoError(t, f.Truncate(int64(90+n)))
			require.NoError(t, f.Sync())
			require.NoError(t, f.Close())
			require.NoError(t, os.Rename(name+".tmp", name))
			require.NoError(t, os.Link(name, name+".link"))
		})
	}
	wait.Wait()
	require.NoError(t, os.Remove(filepath.Join(dir, "d", "a")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "before"), []byte("x"), 0o600))
	folder, err := os.Open(filepath.Join(dir, "d"))
	require.NoError(t, err)
	require.NoError(t, folder.Sync())
	require.NoError(t, folder.Close())
}

func TestEverythingThatAProcessWritesIsRecorded(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "disk")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "before"), []byte("it was there"), 0o600))
	r, err := NewRecorder(dir)
	require.NoError(t, err)
	require.Equal(t, contentOf(t, dir), left(t, r.Events(), OnlySynced))
	child := exec.Command(os.Args[0], "-test.run", "^TestChild$")
	child.Env = append(os.Environ(), childFolder+"="+dir)
	status, err := r.Run(child, nil)
	require.NoError(t, err)
	require.Zero(t, status.ExitStatus())
	want := contentOf(t, dir)
	require.Len(t, want, 8)
	require.Equal(t, want, left(t, r.Events(), Everything))
	delete(want, "before")
	require.Empty(t, left(t, r.Events(), OnlySynced)["d/b"], "the folder's own name is not synced")
	events := append(r.Events(), Event{Kind: SyncDir, Name: ".", Covers: r.Len()})
	got := left(t, events, OnlySynced)
	delete(got, "before")
	require.Equal(t, want, got)
}
