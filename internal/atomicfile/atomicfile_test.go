package atomicfile

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func saying(text string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}
}

func requireOnly(t require.TestingT, dir string, want map[string]string) {
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	got := map[string]string{}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		got[e.Name()] = string(text)
	}
	require.Equal(t, want, got)
}

func TestFileIsMadeAndReplaced(t *testing.T) {
	dir := t.TempDir()
	for _, text := range []string{"one", "", strings.Repeat("much ", bufferBytes)} {
		require.NoError(t, Write(filepath.Join(dir, "f"), Options{}, saying(text)))
		requireOnly(t, dir, map[string]string{"f": text})
	}
}

func TestRelativePathIsInCurrentFolder(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, Write("f", Options{}, saying("here")))
	require.NoError(t, Write("g", Options{Exclusive: true}, saying("there")))
	requireOnly(t, ".", map[string]string{"f": "here", "g": "there"})
}

func TestPermissionsAreThoseAskedFor(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such permissions")
	}
	path := filepath.Join(t.TempDir(), "f")
	require.NoError(t, os.WriteFile(path, nil, 0o644))
	require.NoError(t, Write(path, Options{Perm: 0o600}, saying("secret")))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode())
}

func TestExclusiveFileReplacesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	require.NoError(t, Write(path, Options{Exclusive: true}, saying("first")))
	err := Write(path, Options{Exclusive: true},
		func(io.Writer) error { panic("work that is lost") })
	require.ErrorIs(t, err, fs.ErrExist)
	require.ErrorContains(t, err, path)

	late := filepath.Join(dir, "g") // Another process creates this file before Commit.
	f, err := Create(late, Options{Exclusive: true})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(late, []byte("another's"), 0o666))
	require.ErrorIs(t, f.Commit(), fs.ErrExist)
	requireOnly(t, dir, map[string]string{"f": "first", "g": "another's"})
}

func TestFileSystemWithoutLinksHasExclusiveFilesToo(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	s := osSystem()
	s.link = func(string, string) error { return syscall.EPERM }
	for i, want := range []error{nil, fs.ErrExist} {
		f, err := begin(s, path, Options{Exclusive: i == 0})
		require.NoError(t, err)
		// The second Create omits Exclusive, so that only Commit refuses the path.
		f.exclusive = true
		require.NoError(t, saying("first")(f))
		require.ErrorIs(t, f.Commit(), want)
	}
	requireOnly(t, dir, map[string]string{"f": "first"})
}

func TestGivenTemporaryNameIsLock(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	o := Options{Temporary: path + ".lock"}
	f, err := Create(path, o)
	require.NoError(t, err)
	_, err = Create(path, o)
	require.ErrorIs(t, err, fs.ErrExist)
	requireOnly(t, dir, map[string]string{"f.lock": ""})
	require.NoError(t, f.Commit())

	f, err = Create(path, o)
	require.NoError(t, err)
	require.NoError(t, f.Discard())
	requireOnly(t, dir, map[string]string{"f": ""})
}

func TestFileEndsOnce(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	for _, end := range []func(*File) error{(*File).Commit, (*File).Discard} {
		f, err := Create(path, Options{})
		require.NoError(t, err)
		require.NoError(t, end(f))
		require.NoError(t, f.Discard())
		require.ErrorIs(t, f.Commit(), fs.ErrClosed)
		_, err = f.Write([]byte("late"))
		require.ErrorIs(t, err, fs.ErrClosed)
	}
	requireOnly(t, dir, map[string]string{"f": ""})
}

func TestErrorWhileFillingChangesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	require.NoError(t, Write(path, Options{}, saying("old")))
	mine := errors.New("no more to say")
	err := Write(path, Options{}, func(w io.Writer) error {
		_, _ = w.Write(make([]byte, 3*bufferBytes))
		return mine
	})
	require.ErrorIs(t, err, mine)
	require.EqualError(t, err, mine.Error(), "it comes as it is")
	requireOnly(t, dir, map[string]string{"f": "old"})
}

type fullDisk struct {
	handle
	room int
}

func (d *fullDisk) Write(p []byte) (int, error) {
	n, err := d.handle.Write(p[:min(len(p), d.room)])
	d.room -= n
	if err == nil && n < len(p) {
		err = syscall.ENOSPC
	}
	return n, err
}

func TestFullDiskChangesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	require.NoError(t, Write(path, Options{}, saying("old")))
	text := "the new content"
	for room := range len(text) {
		s := osSystem()
		s.create = func(name string, perm fs.FileMode) (handle, error) {
			out, err := osSystem().create(name, perm)
			return &fullDisk{out, room}, err
		}
		f, err := begin(s, path, Options{})
		require.NoError(t, err)
		require.ErrorIs(t, saying(text)(f), syscall.ENOSPC, "room for %d bytes", room)
		require.NoError(t, f.Discard())
		requireOnly(t, dir, map[string]string{"f": "old"})
	}
}

// failing is a file whose Sync or Close does its work and then returns an error.
type failing struct {
	handle
	sync, close error
}

func (f failing) Sync() error  { return errors.Join(f.handle.Sync(), f.sync) }
func (f failing) Close() error { return errors.Join(f.handle.Close(), f.close) }

func TestFailedStepIsReportedAndLeavesWholeFile(t *testing.T) {
	disk := errors.New("disk on fire")
	for name, c := range map[string]struct {
		exclusive bool
		spoil     func(s *system)
		left      map[string]string
	}{
		"create": {false, func(s *system) {
			s.create = func(string, fs.FileMode) (handle,
				error) {
				return nil, disk
			}
		}, map[string]string{"f": "old"}},
		"lstat": {true, func(s *system) {
			s.lstat = func(string) (fs.FileInfo, error) {
				return nil,
					disk
			}
		}, map[string]string{"f": "old"}},
		"sync": {false, func(s *system) { spoilHandle(s, disk, nil) },
			map[string]string{"f": "old"}},
		"close": {false, func(s *system) { spoilHandle(s, nil, disk) },
			map[string]string{"f": "old"}},
		"rename": {false, func(s *system) { s.rename = func(string, string) error { return disk } },
			map[string]string{"f": "old"}},
		"link and rename": {true, func(s *system) {
			s.link = func(string, string) error { return syscall.EPERM }
			s.rename = func(string, string) error { return disk }
		}, map[string]string{"f": "old"}},
		"the folder's sync": {false,
			func(s *system) { s.syncFolder = func(string) error { return disk } },
			map[string]string{"f": "new"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "f")
			require.NoError(t, Write(path, Options{}, saying("old")))
			want := c.left
			if c.exclusive {
				path = filepath.Join(dir, "g")
			}
			s := osSystem()
			c.spoil(&s)
			f, err := begin(s, path, Options{Exclusive: c.exclusive})
			if err == nil {
				require.NoError(t, saying("new")(f))
				err = f.Commit()
				require.NoError(t, f.Discard())
			}
			require.ErrorIs(t, err, disk)
			require.ErrorContains(t, err, path)
			requireOnly(t, dir, want)
		})
	}
}

func spoilHandle(s *system, sync, close error) {
	s.create = func(name string, perm fs.FileMode) (handle, error) {
		out, err := osSystem().create(name, perm)
		return failing{out, sync, close}, err
	}
}

func TestLeftoverTemporaryFileIsReported(t *testing.T) {
	disk := errors.New("disk on fire")
	s := osSystem()
	s.remove = func(string) error { return disk }
	for _, exclusive := range []bool{false, true} {
		f, err := begin(s, filepath.Join(t.TempDir(), "f"), Options{Exclusive: exclusive})
		require.NoError(t, err)
		if exclusive {
			require.ErrorIs(t, f.Commit(), disk)
		} else {
			require.ErrorIs(t, f.Discard(), disk)
		}
	}
}

// The content must be synced before the rename, and the folder must be synced before Commit
// returns.
func TestStepsComeInTheOrderThatSurvivesAPowerFailure(t *testing.T) {
	dir := t.TempDir()
	var did []string
	s := osSystem()
	s.create = func(name string, perm fs.FileMode) (handle, error) {
		out, err := osSystem().create(name, perm)
		return recording{out, &did}, err
	}
	s.rename = func(from, to string) error {
		did = append(did, "rename")
		return os.Rename(from,
			to)
	}
	s.syncFolder = func(name string) error {
		require.Equal(t, dir, name)
		did = append(did, "sync folder")
		return SyncFolder(name)
	}
	f, err := begin(s, filepath.Join(dir, "f"), Options{})
	require.NoError(t, err)
	require.NoError(t, saying("new")(f))
	require.NoError(t, f.Commit())
	require.Equal(t, []string{"write", "sync", "close", "rename", "sync folder"}, did)
}

type recording struct {
	handle
	did *[]string
}

func (r recording) Write(p []byte) (int, error) {
	*r.did = append(*r.did, "write")
	return r.handle.Write(p)
}

func (r recording) Sync() error  { *r.did = append(*r.did, "sync"); return r.handle.Sync() }
func (r recording) Close() error { *r.did = append(*r.did, "close"); return r.handle.Close() }

func TestFolderOfThatNameIsRefused(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	require.NoError(t, os.Mkdir(path, 0o777))
	require.ErrorContains(t, Write(path, Options{}, saying("new")), path)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.ErrorIs(t, Write(filepath.Join(dir, "none", "f"), Options{}, saying("new")),
		fs.ErrNotExist)
}

// Each content repeats one byte, whose value determines the length. So the test recognizes
// incomplete and mixed contents.
func TestReadersSeeOldOrNewWhole(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not replace a file that somebody has open")
	}
	path := filepath.Join(t.TempDir(), "f")
	content := func(n byte) string { return string(bytes.Repeat([]byte{n}, 1+int(n)*100)) }
	require.NoError(t, Write(path, Options{}, saying(content(0))))
	done := make(chan struct{})
	var writers, readers sync.WaitGroup
	for i := range byte(4) {
		writers.Go(func() {
			for n := i; n < 80; n += 4 {
				if err := Write(path, Options{}, saying(content(n))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 2 {
		readers.Go(func() {
			for {
				text, err := os.ReadFile(path)
				if err != nil || len(text) == 0 || string(text) != content(text[0]) {
					t.Errorf("read %d bytes, error %v", len(text), err)
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	writers.Wait()
	close(done)
	readers.Wait()
}

func TestWhatIsWrittenInPiecesIsTheirSum(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOfN(rapid.String(), 0, 8).Draw(t, "pieces")
		err := Write(filepath.Join(dir, "f"), Options{}, func(w io.Writer) error {
			for _, p := range pieces {
				if _, err := io.WriteString(w, p); err != nil {
					return err
				}
			}
			return nil
		})
		require.NoError(t, err)
		requireOnly(t, dir, map[string]string{"f": strings.Join(pieces, "")})
	})
}

func TestAbsentRefusesFilesAndLinks(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	require.NoError(t, Absent(path))
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.ErrorIs(t, Absent(path), fs.ErrExist)
	require.ErrorIs(t, Absent(dir), fs.ErrExist)
	if runtime.GOOS == "windows" {
		return // making a link needs a right
	}
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(filepath.Join(dir, "missing"), link))
	require.ErrorIs(t, Absent(link), fs.ErrExist)
	require.ErrorIs(t, Absent(filepath.Join(path, "below")), syscall.ENOTDIR)
}
