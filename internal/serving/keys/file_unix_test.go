//go:build unix

package keys

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/serving/reload"
)

// A named pipe must be refused at once, because opening a pipe can wait for a writer.
func TestKeysFileIsFile(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "keys.json")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	for path, found := range map[string]string{pipe: "a named pipe", dir: "a directory",
		"/dev/zero": "a device"} {
		answer := make(chan error, 1)
		go func() {
			_, err := OpenRing(path, func(error) {})
			answer <- err
		}()
		select {
		case err := <-answer:
			require.ErrorIs(t, err, reload.ErrNotFile)
			require.ErrorContains(t, err, path+": found "+found+", expected a regular file")
		case <-time.After(10 * time.Second):
			t.Fatal(path + " hangs the reader")
		}
	}
	err := UpdateFile(pipe, func(list []Key) ([]Key, error) { return list, nil })
	require.ErrorIs(t, err, reload.ErrNotFile)
}
