package folder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lmserve/lmserve/internal/serving/storage"
	"github.com/lmserve/lmserve/internal/serving/storage/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// unsynced is a file system without syncs. Tests without power cuts use it because it is faster.
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
				left, err := os.MkdirTemp(t.TempDir(), "")
				if err == nil {
					err = copyLinked(dir, left)
				}
				dir = left
				return errors.Join(err, s.Close())
			},
		}
	})
}

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

// A power cut during a segment's first append may leave an empty file. If the session is then
// forked, its later appends must not appear in the fork's log, or the fork's in the session's log.
func TestEmptySegmentIsNotShared(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s, err := open(dir, Options{}, unsynced{})
	require.NoError(t, err)
	_, err = s.Create(background, "a", []byte("{}"), 0)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	empty := filepath.Join(dir, "sessions", "a", fmt.Sprintf("log.%016x", 0))
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	require.NoError(t, os.Remove(filepath.Join(dir, indexName)))

	s, err = open(dir, Options{}, unsynced{})
	require.NoError(t, err)
	_, err = s.Claim(background, "a")
	require.NoError(t, err)
	_, err = s.Fork(background, "a", "b", []byte("{}"), storage.Cut{})
	require.NoError(t, err)
	for _, id := range []string{"a", "b", "a"} {
		claimed, err := s.Claim(background, id)
		require.NoError(t, err)
		require.NoError(t, s.Append(background, id, claimed.Epoch, claimed.End,
			record{Text: []byte("text of " + id)}))
	}
	require.NoError(t, s.Close())
	s, err = open(dir, Options{}, unsynced{})
	require.NoError(t, err)
	for id, want := range map[string]string{"a": "text of atext of a", "b": "text of b"} {
		text := ""
		require.NoError(t, s.Read(background, id, 0, func(_ int64, r record) error {
			text += string(r.Text)
			return nil
		}))
		require.Equal(t, want, text)
	}
	require.NoError(t, s.Close())
}

// An operator may put a file into a folder of the store, such as the folder "backup". Opening the
// store keeps and reports the file.
func TestOpeningKeepsForeignFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s, err := open(dir, Options{}, unsynced{})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	mine := filepath.Join(dir, backupName, "monday")
	require.NoError(t, os.MkdirAll(mine, 0o700))
	archive := filepath.Join(mine, "all.tar")
	require.NoError(t, os.WriteFile(archive, []byte("archive"), 0o600))
	told := 0
	s, err = open(dir, Options{Report: func(error) { told++ }}, unsynced{})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.Equal(t, 1, told)
	content, err := os.ReadFile(archive)
	require.NoError(t, err)
	require.Equal(t, "archive", string(content))
}

// noted is a file system that records which folders were synced. The first syncs of session a's
// folder fail, in the number given by fails.
type noted struct {
	osFiles
	dirs  *[]string
	fails int
}

func (n *noted) SyncDir(path string) error {
	*n.dirs = append(*n.dirs, filepath.Base(path))
	if filepath.Base(path) == "a" && n.fails > 0 {
		n.fails--
		return errIO
	}
	return n.osFiles.SyncDir(path)
}

// A killed process may leave unsynced files. Opening the store syncs each session. If the sync of a
// session fails, the next use of the session repeats the sync.
func TestWhatWasLeftIsSyncedBeforeItIsReported(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s, err := open(dir, Options{}, unsynced{})
	require.NoError(t, err)
	epoch, err := s.Create(background, "a", []byte("{}"), 0)
	require.NoError(t, err)
	require.NoError(t, s.Append(background, "a", epoch, 0, record{Text: []byte("text")}))
	require.NoError(t, s.Close())
	for _, clean := range []bool{true, false} {
		if !clean {
			require.NoError(t, os.Remove(filepath.Join(dir, indexName)))
		}
		var dirs []string
		files := &noted{dirs: &dirs, fails: 2}
		reports := 0
		s, err = open(dir, Options{Report: func(error) { reports++ }}, files)
		require.NoError(t, err)
		if !clean {
			require.Equal(t, 1, reports)
			dirs = nil
			listed, err := s.List(background, "", 10)
			require.NoError(t, err)
			require.Len(t, listed, 1)
			require.ErrorIs(t, listed[0].Err, storage.ErrUnavailable,
				"what may be lost is not told")
		}
		for n, want := range []bool{!clean, false} {
			dirs = nil
			got, err := s.Get(background, "a")
			require.NoError(t, err)
			require.EqualValues(t, 4, got.End)
			require.Equal(t, want, slices.Contains(dirs, "a"), "clean %v, get %d", clean, n)
		}
		require.NoError(t, s.Close())
	}
}

func TestReadContinuesWhereForkCuts(t *testing.T) {
	s, err := open(filepath.Join(t.TempDir(), "data"), Options{}, unsynced{})
	require.NoError(t, err)
	epoch, err := s.Create(background, "a", []byte("{}"), 0)
	require.NoError(t, err)
	for n := range int64(6) {
		require.NoError(t, s.Append(background, "a", epoch, 4*n,
			record{Text: fmt.Appendf(nil, "%04d", n)}))
	}
	fork := func(id string, end int64) {
		_, err := s.Fork(background, "a", id, []byte("{}"), storage.Cut{End: end})
		require.NoError(t, err)
	}
	fork("b", 8) // offset 8 is within the only segment, which the fork splits in two
	text := ""
	require.NoError(t, s.Read(background, "a", 0, func(at int64, r record) error {
		if text += string(r.Text); at == 0 {
			fork("c", 16) // offset 16 is within the second segment, which the fork splits
		}
		return nil
	}))
	require.Equal(t, "000000010002000300040005", text)
	require.NoError(t, s.Close())
}
