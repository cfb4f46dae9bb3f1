package folder

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lmserve/lmserve/internal/serving/storage"
	"github.com/lmserve/lmserve/internal/serving/storage/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// unsynced is a file system for tests in which nobody pulls the plug.
type unsynced struct{ osFiles }

type unsyncedFile struct{ file }

func (unsyncedFile) Sync() error { return nil }

func (u unsynced) OpenFile(name string, flag int, perm fs.FileMode) (file, error) {
	f, err := u.osFiles.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return unsyncedFile{f}, nil
}

func (unsynced) SyncDir(string) error { return nil }

func TestFolderIsAStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Backend {
		dir := filepath.Join(t.TempDir(), "data")
		return storetest.Backend{
			Open: func() (storage.Store, error) { return open(dir, Options{}, unsynced{}) },
			Crash: func(s storage.Store) error {
				left, err := os.MkdirTemp(t.TempDir(), "") // as it is while the store is open
				if err == nil {
					err = copyLinked(dir, left)
				}
				dir = left
				return errors.Join(err, s.Close())
			},
		}
	})
}

// copyLinked copies a folder, whose links stay links.
func copyLinked(from, to string) error {
	copies := map[links]string{}
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil || name == "." {
			return err
		}
		copied := filepath.Join(to, name)
		if e.IsDir() {
			return os.Mkdir(copied, 0o700)
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		l := linksOf(path, info)
		if first, ok := copies[l]; ok {
			return os.Link(first, copied)
		}
		copies[l] = copied
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(copied, b, 0o600)
	})
}

// Opening removes what a killed process has left of the store's own files, and nothing else.
func TestOpeningRemovesOnlyItsOwnLeftovers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s, err := open(dir, Options{}, unsynced{})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	left, other := temporaryName(filepath.Join(dir, epochName)), filepath.Join(dir, "notes.tmp")
	for _, path := range []string{left, other} {
		require.NoError(t, os.WriteFile(path, []byte("text"), 0o600))
	}
	s, err = open(dir, Options{}, unsynced{})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.NoFileExists(t, left)
	content, err := os.ReadFile(other)
	require.NoError(t, err)
	require.Equal(t, "text", string(content))
}
