package sessionlog_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/lmserve/lmserve/internal/sessionlog"
)

// smallDisk is a file system of its own.
func smallDisk(t *testing.T, bytes int) string {
	t.Helper()
	dir := t.TempDir()
	err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", bytes))
	if err != nil {
		t.Skipf("mounting a file system: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, 0)) })
	return dir
}

// fillDisk takes every byte that is left.
func fillDisk(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "filler"))
	require.NoError(t, err)
	defer f.Close()
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			require.ErrorIs(t, err, syscall.ENOSPC)
			size /= 2
		}
	}
	var s unix.Statfs_t
	require.NoError(t, unix.Statfs(dir, &s))
	require.Zero(t, s.Bavail)
}

// Whatever has filled the disk, the sessions on it can be deleted, the large ones and the small.
func TestSessionsCanBeDeletedOnADiskWithoutAByteLeft(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	for _, by := range []string{"the log", "something else"} {
		t.Run(by, func(t *testing.T) {
			disk := smallDisk(t, 24<<20)
			s, err := sessionlog.Open(filepath.Join(disk, "data"), sessionlog.Options{Serving: true})
			require.NoError(t, err)
			defer func() { require.NoError(t, s.Close()) }()
			random := rand.New(rand.NewPCG(1, 1))
			epochs, ends := map[string]uint64{}, map[string]int64{}
			for n := range 20 {
				id := fmt.Sprintf("%036d", n)
				epochs[id], err = s.Create(t.Context(), id, []byte("head"), 0)
				require.NoError(t, err)
				err = s.WriteSnapshot(t.Context(), id, epochs[id], 0, func(w io.Writer) error {
					_, err := w.Write(make([]byte, 1000))
					return err
				})
				require.NoError(t, err)
			}
			for step := 0; ; step++ {
				id := fmt.Sprintf("%036d", random.IntN(20))
				text := make([]byte, 1+random.IntN(4000))
				err := s.Append(t.Context(), id, epochs[id], ends[id], sessionlog.Record{Text: text})
				if errors.Is(err, sessionlog.ErrNoSpace) || by != "the log" && step == 1000 {
					break
				}
				require.NoError(t, err)
				ends[id] += int64(len(text))
			}
			fillDisk(t, disk)
			require.Zero(t, s.Usage().Left)
			require.EqualValues(t, 24<<20, s.Usage().All)
			for id, epoch := range epochs {
				require.NoError(t, s.Delete(t.Context(), id, epoch), s.Usage())
			}
			left, err := s.List(t.Context(), "", 100)
			require.NoError(t, err)
			require.Empty(t, left)
			require.FileExists(t, filepath.Join(disk, "data", "lmserve.db.reserve"), "there is one again")
		})
	}
}
