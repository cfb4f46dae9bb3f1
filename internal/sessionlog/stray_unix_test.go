//go:build unix

package sessionlog

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStrayEntriesDoNotStopTheStart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s, err := Open(dir, Options{})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	target := filepath.Join(dir, "target")
	require.NoError(t, os.WriteFile(target, []byte("kept"), 0o600))
	var strays []string
	for n, make := range []func(string) error{
		func(path string) error { return os.MkdirAll(filepath.Join(path, "full"), 0o700) },
		func(path string) error { return syscall.Mkfifo(path, 0o600) },
		func(path string) error { return os.Symlink(target, path) },
		func(path string) error { return os.Symlink(filepath.Join(dir, "nowhere"), path) },
	} {
		for _, name := range []string{
			fmt.Sprintf("%s.x%d%s", databaseName, n, temporarySuffix),
			snapshotsFolder + "/" + snapshotName("a", int64(n)),
			snapshotsFolder + "/" + snapshotName("a", int64(n)) + ".x" + temporarySuffix,
		} {
			require.NoError(t, make(filepath.Join(dir, name)))
			strays = append(strays, name)
		}
	}
	var told []string
	s, err = Open(dir, Options{Report: func(err error) {
		var d *CorruptError
		require.ErrorAs(t, err, &d)
		told = append(told, d.File)
	}})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.ElementsMatch(t, strays, told)
	for _, name := range strays {
		_, err := os.Lstat(filepath.Join(dir, name))
		require.NoError(t, err)
	}
	content, err := os.ReadFile(target)
	require.NoError(t, err)
	require.Equal(t, "kept", string(content))
}
