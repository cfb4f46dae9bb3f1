package folder

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lmserve/lmserve/internal/powercut"
	"github.com/lmserve/lmserve/internal/serving/storage"
)

type ctx = context.Context

var fixed = time.Unix(1, 0)

func noDamage(t require.TestingT) func(*storage.CorruptError) {
	return func(d *storage.CorruptError) { require.Fail(t, d.Error()) }
}

func readBackup(t require.TestingT, b storage.Backup) []byte {
	r := b.Open()
	defer r.Close()
	all, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Len(t, all, int(b.Size()))
	return all
}

func TestBackupIsTheFolderOfOneMoment(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	want := damageable(t, dir)
	s, err := open(dir, Options{}, unsynced{})
	require.NoError(t, err)
	b, err := s.Backup(background)
	require.NoError(t, err)
	_, err = s.Backup(background)
	require.ErrorIs(t, err, storage.ErrBackup)
	// The backup must not contain the following writes, because it began before them.
	a, err := s.Claim(background, "a")
	require.NoError(t, err)
	require.NoError(t, s.Append(background, "a", a.Epoch, a.End, record{Text: []byte("later")}))
	require.NoError(t, s.SetHead(background, "a", a.Epoch, []byte("later")))
	require.NoError(t, s.Delete(background, "b", 0))
	_, err = s.Create(background, "later", nil, 0)
	require.NoError(t, err)
	archive := readBackup(t, b)
	r := b.Open()
	require.NoError(t, b.Close())
	_, err = r.Read(make([]byte, 10))
	require.ErrorIs(t, err, storage.ErrClosed)
	require.NoError(t, s.Close())
	checked(t, dir, "", false)

	restored := filepath.Join(t.TempDir(), "restored")
	require.NoError(t, Restore(background, bytes.NewReader(archive), restored, noDamage(t)))
	untarred := filepath.Join(t.TempDir(), "untarred")
	require.NoError(t, os.Mkdir(untarred, 0o700))
	tar := exec.Command("tar", "-x", "-C", untarred)
	tar.Stdin = bytes.NewReader(archive)
	out, err := tar.CombinedOutput()
	require.NoError(t, err, string(out))
	for _, made := range []string{restored, untarred} {
		checked(t, made, made, false)
		s, err := open(made, Options{}, unsynced{})
		require.NoError(t, err)
		require.Equal(t, want, eachDump(t, s))
		x, err := s.Claim(background, "f")
		require.NoError(t, err)
		require.NoError(t, s.Append(background, "f", x.Epoch, x.End, record{Text: []byte("on")}))
		require.NoError(t, s.Close())
	}
}

func TestBackupIsReadFromAnyOffset(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	damageable(t, dir)
	s, err := open(dir, Options{}, unsynced{})
	require.NoError(t, err)
	defer s.Close()
	b, err := s.Backup(background)
	require.NoError(t, err)
	defer b.Close()
	archive := readBackup(t, b)
	rapid.Check(t, func(t *rapid.T) {
		at := rapid.Int64Range(0, b.Size()).Draw(t, "at")
		r := b.Open()
		defer r.Close()
		_, err := r.Seek(at, io.SeekStart)
		require.NoError(t, err)
		rest, err := io.ReadAll(r)
		require.NoError(t, err)
		require.True(t, bytes.Equal(archive[at:], rest))
	})
}

func TestDamagedBackupIsRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	damageable(t, dir)
	s, err := open(dir, Options{}, unsynced{})
	require.NoError(t, err)
	b, err := s.Backup(background)
	require.NoError(t, err)
	archive := readBackup(t, b)
	require.NoError(t, b.Close())
	require.NoError(t, s.Close())
	to := filepath.Join(t.TempDir(), "restored")
	for n := 0; n < len(archive); n += 397 {
		err := Restore(background, bytes.NewReader(archive[:n]), to, noDamage(t))
		require.ErrorIs(t, err, storage.ErrNoBackup, "%d bytes", n)
		require.NoFileExists(t, to)
	}
	err = Restore(background, bytes.NewReader(append(bytes.Clone(archive), 0)), to, noDamage(t))
	require.ErrorIs(t, err, storage.ErrNoBackup)
	for n := 0; n < len(archive); n += 307 {
		broken := bytes.Clone(archive)
		broken[n] ^= 4
		damage := 0
		err := Restore(background, bytes.NewReader(broken), to,
			func(*storage.CorruptError) { damage++ })
		if err != nil {
			require.ErrorIs(t, err, storage.ErrNoBackup, "byte %d", n)
			require.NoFileExists(t, to)
			continue
		}
		if s, err := open(to, Options{}, unsynced{}); damage == 0 {
			require.NoError(t, err, fmt.Sprint("byte ", n))
			require.NoError(t, s.Close())
		} else {
			require.NoError(t, s.Close())
		}
		require.NoError(t, os.RemoveAll(to))
	}
}

// The disk space charged to each session must stay correct after every call. The reference is the
// space counted when the folder is opened again.
func TestChargesAreThoseThatOpeningCounts(t *testing.T) {
	for _, way := range []string{"index", "no index"} {
		t.Run(way, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			s, err := open(dir, Options{}, unsynced{})
			require.NoError(t, err)
			for _, x := range newScript().steps() {
				told := map[string]int64{}
				s.Meter(func(id string, bytes int64) { told[id] = bytes })
				require.NoError(t, x.do(s))
				for id, bytes := range told {
					if bytes == 0 {
						delete(told, id)
					}
				}
				require.Equal(t, s.usage.charges, told, x.name)
				require.NoError(t, s.Close())
				if way == "no index" {
					require.NoError(t, os.Remove(filepath.Join(dir, indexName)))
				}
				s, err = open(dir, Options{}, unsynced{})
				require.NoError(t, err)
				require.Equal(t, told, s.usage.charges, x.name)
			}
			require.NoError(t, s.Close())
		})
	}
}

// tar can store a sparse file without its holes. An archive with such a file must be refused,
// because the store would misread it.
func TestSparseMembersAreRefused(t *testing.T) {
	name := sessionsName + "/a/" + hexName(segmentPrefix, 0)
	for _, records := range []string{
		"22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n30 GNU.sparse.realsize=100000\n",
		"29 GNU.sparse.size=100000000\n26 GNU.sparse.numblocks=1\n22 GNU.sparse.map=0,8\n",
	} {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		write := func(name, content string) {
			require.NoError(t, w.WriteHeader(&tar.Header{Format: tar.FormatGNU, Name: name,
				Size: int64(len(content))}))
			_, err := io.WriteString(w, content)
			require.NoError(t, err)
			require.NoError(t, w.Flush())
		}
		write("records", records)
		// TypeXHeader marks a header that describes the next file
		header := b.Bytes()[:tarBlock]
		header[156] = tar.TypeXHeader
		sum := 0
		for n, c := range header {
			if n >= 148 && n < 156 {
				c = ' '
			}
			sum += int(c)
		}
		copy(header[148:156], fmt.Sprintf("%06o\x00 ", sum))
		write(name, "1\n0\n1\n"+strings.Repeat("\x00", tarBlock-6)+"x")
		write(versionName, versionText)
		require.NoError(t, w.Close())
		dir := filepath.Join(t.TempDir(), "data")
		_, export := OpenExport(io.NewSectionReader(bytes.NewReader(b.Bytes()), 0, int64(b.Len())))
		for what, err := range map[string]error{
			"restore": Restore(background, bytes.NewReader(b.Bytes()), dir, noDamage(t)),
			"check":   CheckBackup(background, bytes.NewReader(b.Bytes()), noDamage(t)),
			"export":  export,
		} {
			require.ErrorIs(t, err, storage.ErrNoBackup, what)
			require.ErrorContains(t, err, name+" is a sparse file (with holes)", what)
		}
		require.NoDirExists(t, dir)
	}
}

// A backup records the end of every log. Damage at the end of a log is therefore reported, and not
// taken for a torn append, the partial write of a killed process.
func TestDamageAtTheEndOfABackupIsFound(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	_, b, begins := framed(t, dir, 'x', 2000, 2000)
	s, err := open(dir, Options{}, unsynced{})
	require.NoError(t, err)
	made, err := s.Backup(background)
	require.NoError(t, err)
	archive := readBackup(t, made)
	require.NoError(t, errors.Join(made.Close(), s.Close()))
	at := bytes.Index(archive, b)
	require.Positive(t, at)
	clear(archive[at+begins[1]+sectorBytes : at+begins[1]+3*sectorBytes])
	found := 0
	restored := filepath.Join(t.TempDir(), "restored")
	require.NoError(t, Restore(background, bytes.NewReader(archive), restored,
		func(*storage.CorruptError) { found++ }))
	require.Positive(t, found)
	s, err = open(restored, Options{}, unsynced{})
	require.NoError(t, err)
	_, err = s.Claim(background, "a")
	require.ErrorIs(t, err, storage.ErrCorrupt)
	require.NoError(t, s.Close())
}

// restoredFrom makes a backup of an open folder, and restores the backup into another folder.
func restoredFrom(t *testing.T, s *Folder) (dir string, found []*storage.CorruptError) {
	b, err := s.Backup(background)
	require.NoError(t, err)
	archive := readBackup(t, b)
	require.NoError(t, b.Close())
	dir = filepath.Join(t.TempDir(), "restored")
	require.NoError(t, Restore(background, bytes.NewReader(archive), dir,
		func(d *storage.CorruptError) { found = append(found, d) }))
	return dir, found
}

func TestBackupHasSessionWithLongestID(t *testing.T) {
	s, err := open(filepath.Join(t.TempDir(), "data"), Options{}, unsynced{})
	require.NoError(t, err)
	id := strings.Repeat("a", storage.MaxIDBytes)
	epoch, err := s.Create(background, id, []byte("head"), 0)
	require.NoError(t, err)
	require.NoError(t, s.Append(background, id, epoch, 0, record{Text: []byte("text")}))
	_, err = s.Create(background, "b", nil, 0)
	require.NoError(t, err)
	restored, found := restoredFrom(t, s)
	require.Empty(t, found)
	want := eachDump(t, s)
	require.NoError(t, s.Close())
	s, err = open(restored, Options{}, unsynced{})
	require.NoError(t, err)
	require.Equal(t, want, eachDump(t, s))
	require.NoError(t, s.Close())
}

func TestBackupHasLogOfDamagedSession(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, session string){
		"missing head": func(t *testing.T, session string) {
			require.NoError(t, os.Remove(filepath.Join(session, headName)))
		},
		"damaged head": func(t *testing.T, session string) {
			require.NoError(t, os.WriteFile(filepath.Join(session, headName), []byte("x"), 0o600))
		},
		"cut log": func(t *testing.T, session string) {
			require.NoError(t, os.Truncate(filepath.Join(session, hexName(segmentPrefix, 0)), 200))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			want := damageable(t, dir)
			require.NoError(t, os.Remove(filepath.Join(dir, indexName)))
			session := filepath.Join(dir, sessionsName, "b")
			damage(t, session)
			entries, err := os.ReadDir(session)
			require.NoError(t, err)
			for _, readOnly := range []bool{false, true} {
				s, err := open(dir, Options{ReadOnly: readOnly}, unsynced{})
				require.NoError(t, err)
				restored, found := restoredFrom(t, s)
				require.NoError(t, s.Close())
				require.Len(t, found, 1)
				require.Equal(t, "b", found[0].Session)
				for _, e := range entries {
					content, err := os.ReadFile(filepath.Join(session, e.Name()))
					require.NoError(t, err)
					same, err := os.ReadFile(filepath.Join(restored, sessionsName, "b", e.Name()))
					require.NoError(t, err)
					require.Equal(t, content, same, e.Name())
				}
				s, err = open(restored, Options{ReadOnly: true}, unsynced{})
				require.NoError(t, err)
				got := eachDump(t, s)
				require.NoError(t, s.Close())
				require.Equal(t, want["a"], got["a"])
			}
		})
	}
}

func TestBackupContinuesWithoutMissingFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	want := damageable(t, dir)
	var told []error
	s, err := open(dir, Options{Report: func(err error) { told = append(told, err) }}, unsynced{})
	require.NoError(t, err)
	require.NoError(t, os.Remove(filepath.Join(dir, sessionsName, "b", hexName(segmentPrefix, 0))))
	restored, found := restoredFrom(t, s)
	require.NoError(t, s.Close())
	require.Len(t, told, 1)
	require.ErrorIs(t, told[0], storage.ErrCorrupt)
	require.Len(t, found, 1)
	require.Equal(t, "b", found[0].Session)
	s, err = open(restored, Options{ReadOnly: true}, unsynced{})
	require.NoError(t, err)
	require.Equal(t, want["a"], eachDump(t, s)["a"])
	require.NoError(t, s.Close())
}

func TestBackupContinuesAfterUnreadableFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	want := damageable(t, dir)
	for _, name := range []string{headName, hexName(segmentPrefix, 0), hexName(statePrefix, 332)} {
		var told []error
		report := func(err error) { told = append(told, err) }
		s, err := open(dir, Options{Report: report}, hooked{before: func(path string) error {
			if strings.HasSuffix(path, filepath.Join("b", name)) &&
				strings.HasPrefix(path, filepath.Join(dir, backupName)) {
				return &fs.PathError{Op: "open", Path: path, Err: errIO}
			}
			return nil
		}})
		require.NoError(t, err)
		restored, found := restoredFrom(t, s)
		require.NoError(t, s.Close())
		require.Len(t, told, 1)
		require.ErrorContains(t, told[0], "sessions/b/"+name+", byte 0, session b: open ")
		require.NotEmpty(t, found)
		for _, d := range found {
			require.Equal(t, "b", d.Session)
		}
		s, err = open(restored, Options{ReadOnly: true}, unsynced{})
		require.NoError(t, err)
		got := eachDump(t, s)
		require.NoError(t, s.Close())
		require.Equal(t, want["a"], got["a"])
		require.Equal(t, "damaged", got["b"])
	}
}

// A full disk may refuse a hard link. Copies of the files would need even more space.
func TestFullDiskCopiesNoFileForBackup(t *testing.T) {
	d := newDisk(filepath.Join(t.TempDir(), "data"))
	damageable(t, d.root)
	s, err := open(d.root, Options{}, d)
	require.NoError(t, err)
	d.fault = func(o operation) error {
		if o.kind == "link" {
			return errNoSpace
		}
		return nil
	}
	_, err = s.Backup(background)
	require.ErrorIs(t, err, storage.ErrNoSpace)
	left, err := os.ReadDir(filepath.Join(d.root, backupName))
	require.NoError(t, err)
	require.Empty(t, left)
	require.NoError(t, s.Close())
}

// While a backup shares the last segment, an append begins a new segment. On a full disk, the
// append fails and leaves an empty segment. Another backup then shares the empty segment, too.
func TestAppendContinuesAfterFullDiskAndBackup(t *testing.T) {
	d := newDisk(filepath.Join(t.TempDir(), "data"))
	s, err := open(d.root, Options{}, d)
	require.NoError(t, err)
	epoch, err := s.Create(background, "a", nil, 0)
	require.NoError(t, err)
	at := int64(0)
	add := func() error {
		err := s.Append(background, "a", epoch, at, record{Text: []byte("text")})
		if err == nil {
			at += 4
		}
		return err
	}
	require.NoError(t, add())
	for _, kind := range []string{"write", "open"} {
		b, err := s.Backup(background)
		require.NoError(t, err)
		removed := kind == "write" // "open" fails only after the shared file is removed
		d.fault = func(o operation) error {
			removed = removed || o.kind == "remove"
			if removed && o.kind == kind && strings.Contains(o.name, segmentPrefix) {
				return errNoSpace
			}
			return nil
		}
		require.ErrorIs(t, add(), storage.ErrNoSpace, kind)
		d.fault = nil
		mustDump(t, s)
		require.NoError(t, b.Close())
	}
	require.NoError(t, add())
	recovered(t, powercut.After(d.events), filepath.Join(t.TempDir(), "left"), "",
		powercut.OnlySynced, mark{state: mustDump(t, s)})
	require.NoError(t, s.Close())
	checked(t, d.root, "", false)
}

func TestDeletionErasesLinksOfFailedBackup(t *testing.T) {
	d := newDisk(filepath.Join(t.TempDir(), "data"))
	damageable(t, d.root)
	s, err := open(d.root, Options{}, d)
	require.NoError(t, err)
	b, err := s.Backup(background)
	require.NoError(t, err)
	d.fault = func(o operation) error {
		if o.kind == "remove" {
			return errIO
		}
		return nil
	}
	require.ErrorIs(t, b.Close(), errIO)
	d.fault = nil
	require.NoError(t, s.Delete(background, "b", 0))
	left, err := os.ReadDir(filepath.Join(d.root, backupName))
	require.NoError(t, err)
	require.Empty(t, left)
	require.NoError(t, s.Close())
}

func TestCloseEndsBackup(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	damageable(t, dir)
	s, err := open(dir, Options{}, unsynced{})
	require.NoError(t, err)
	b, err := s.Backup(background)
	require.NoError(t, err)
	r := b.Open()
	require.NoError(t, s.Close())
	_, err = r.Read(make([]byte, 10))
	require.ErrorIs(t, err, storage.ErrClosed)
	checked(t, dir, "", false)
	require.NoError(t, b.Close())
}
