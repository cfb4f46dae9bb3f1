package folder

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

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

// hooked is a file system that calls a function before it opens a file, or reads or syncs a folder.
// If the function returns an error, the operation fails with this error.
type hooked struct {
	unsynced
	before func(path string) error
}

func (h hooked) OpenFile(name string, flag int, perm fs.FileMode) (file, error) {
	if err := h.before(name); err != nil {
		return nil, err
	}
	return h.unsynced.OpenFile(name, flag, perm)
}

func (h hooked) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := h.before(name); err != nil {
		return nil, err
	}
	return h.unsynced.ReadDir(name)
}

func (h hooked) SyncDir(name string) error { return h.before(name) }

// errShortage is the error of osFiles if no file descriptor is free.
var errShortage = fmt.Errorf("%w: %w", storage.ErrUnavailable, syscall.EMFILE)

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

// A check reports as removable only what the next opening of the store removes.
func TestCheckTellsRemainsFromForeignFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s, err := open(dir, Options{}, unsynced{})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	foreign := filepath.Join(dir, backupName, "monday.tar")
	require.NoError(t, os.WriteFile(foreign, []byte("archive"), 0o600))
	remains := filepath.Join(dir, backupName, strings.Repeat("0", 32))
	require.NoError(t, os.Mkdir(remains, 0o700))
	found := map[string]string{}
	require.NoError(t, Check(background, dir, func(d *storage.CorruptError) {
		require.True(t, d.Stray)
		found[filepath.Base(d.File)] = d.What
	}))
	require.Len(t, found, 2)
	require.Contains(t, found[filepath.Base(remains)], "the next server start removes it")
	require.Equal(t, "not a file that lmserve wrote; ignored", found["monday.tar"])
	s, err = open(dir, Options{}, unsynced{})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.NoDirExists(t, remains)
	require.FileExists(t, foreign)
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

// numbered creates session a with ten records of four bytes. fork forks a part of the session.
func numbered(t *testing.T) (s *Folder, fork func(id string, end int64)) {
	s, err := open(filepath.Join(t.TempDir(), "data"), Options{}, unsynced{})
	require.NoError(t, err)
	epoch, err := s.Create(background, "a", []byte("{}"), 0)
	require.NoError(t, err)
	for n := range int64(10) {
		require.NoError(t, s.Append(background, "a", epoch, 4*n,
			record{Text: fmt.Appendf(nil, "%04d", n)}))
	}
	return s, func(id string, end int64) {
		_, err := s.Fork(background, "a", id, []byte("{}"), storage.Cut{End: end})
		require.NoError(t, err)
	}
}

func TestReadContinuesAfterEveryFork(t *testing.T) {
	s, fork := numbered(t)
	fork("b", 8)
	text := ""
	require.NoError(t, s.Read(background, "a", 0, func(at int64, r record) error {
		text += string(r.Text)
		switch at {
		case 0: // the forks split the segment that is read next
			fork("c", 16)
			fork("d", 28)
		case 16: // Read has begun again, and the fork again splits the segment that is read next
			fork("e", 36)
		}
		return nil
	}))
	require.Equal(t, "0000000100020003000400050006000700080009", text)
	require.NoError(t, s.Close())
}

func TestReadMixesNoSessionsOfOneID(t *testing.T) {
	s, fork := numbered(t)
	fork("b", 8)
	text := ""
	require.ErrorIs(t, s.Read(background, "a", 0, func(at int64, r record) error {
		text += string(r.Text)
		if at > 0 {
			return nil
		}
		require.NoError(t, s.Delete(background, "a", 0))
		epoch, err := s.Create(background, "a", []byte("{}"), 0)
		require.NoError(t, err)
		return s.Append(background, "a", epoch, 0, record{Text: []byte("the text of another")})
	}), storage.ErrNotFound)
	require.Equal(t, "00000001", text)
	require.NoError(t, s.Close())
}

// opening is a file system that calls functions before and after it opens a file.
type opening struct {
	unsynced
	before, after func(path string)
}

func (o opening) OpenFile(name string, flag int, perm fs.FileMode) (file, error) {
	o.before(name)
	defer o.after(name)
	return o.unsynced.OpenFile(name, flag, perm)
}

// A reader has found a snapshot. The snapshot is replaced while the reader opens its file, or
// before the reader reads the file.
func TestReadGetsSnapshotThatReplacesAnother(t *testing.T) {
	for _, dropped := range []string{"before", "after"} {
		var s *Folder
		var epoch uint64
		var reading bool
		write := func(state string) {
			require.NoError(t, s.WriteSnapshot(background, "a", epoch, 0, func(w io.Writer) error {
				_, err := io.WriteString(w, state)
				return err
			}))
		}
		during := func(when string) func(path string) {
			return func(path string) {
				if !reading || filepath.Base(path) != hexName(statePrefix, 0) {
					return
				}
				if when == dropped {
					require.NoError(t, s.DropSnapshot(background, "a", epoch, 0), when)
				}
				if when == "after" {
					reading = false
					write("new")
				}
			}
		}
		dir := filepath.Join(t.TempDir(), "data")
		var err error
		s, err = open(dir, Options{}, opening{before: during("before"), after: during("after")})
		require.NoError(t, err)
		epoch, err = s.Create(background, "a", nil, 0)
		require.NoError(t, err)
		write("old")
		reading = true
		var got []byte
		require.NoError(t, s.ReadSnapshot(background, "a", 0, func(r io.Reader) (err error) {
			got, err = io.ReadAll(r)
			return err
		}), dropped)
		require.Equal(t, "new", string(got))
		require.NoError(t, s.Close())
	}
}

// waits requires that Close, which begins during a call, returns only after the call. during must
// be called once during the call.
func waits(t *testing.T, s *Folder) (during func(), closed chan error) {
	closed = make(chan error, 1)
	return func() {
		go func() { closed <- s.Close() }()
		select {
		case err := <-closed:
			require.Fail(t, "Close did not wait", "%v", err)
		case <-time.After(100 * time.Millisecond):
		}
	}, closed
}

func TestCloseWaitsForSnapshot(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s, err := open(dir, Options{}, unsynced{})
	require.NoError(t, err)
	epoch, err := s.Create(background, "a", nil, 0)
	require.NoError(t, err)
	during, closed := waits(t, s)
	require.NoError(t, s.WriteSnapshot(background, "a", epoch, 0, func(io.Writer) error {
		during()
		return nil
	}))
	require.NoError(t, <-closed)
	checked(t, dir, "", false)
}

// Snapshots reads the checksums of snapshots, and stores them in the session.
func TestCloseWaitsForSessionLock(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	damageable(t, dir)
	var during func()
	var closed chan error
	var begun atomic.Bool
	s, err := open(dir, Options{}, hooked{before: func(path string) error {
		if strings.HasPrefix(filepath.Base(path), statePrefix) && !begun.Swap(true) {
			during()
		}
		return nil
	}})
	require.NoError(t, err)
	during, closed = waits(t, s)
	kept, err := s.Snapshots(background, "a")
	require.NoError(t, err)
	require.Len(t, kept, 1)
	require.NoError(t, <-closed)
	_, err = s.Snapshots(background, "a")
	require.ErrorIs(t, err, storage.ErrClosed)
}
