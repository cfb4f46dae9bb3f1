package sessionlog

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// contents is what every session of a store reads back as, by id; "" for one that has an error.
func contents(t require.TestingT, s Store) map[string]string {
	all := map[string]string{}
	require.NoError(t, Each(background, s, func(x Session) error {
		if x.Err != nil {
			require.ErrorIs(t, x.Err, ErrCorrupt)
			all[x.ID] = ""
			return nil
		}
		text := fmt.Sprintf("%q %d-%d", x.Head, x.Start, x.End)
		err := s.Read(background, x.ID, x.Start, func(at int64, r Record) error {
			text += fmt.Sprintf(" %d %v %v %v %x", at, r.Bits, r.ByLine, r.Skipped, r.Text)
			return nil
		})
		if err != nil { // a value in the middle of the log
			require.ErrorIs(t, err, ErrCorrupt)
			text = ""
		}
		all[x.ID] = text
		return nil
	}))
	return all
}

// copied is a copy of a folder.
func copied(t require.TestingT, parent, dir string) string {
	to, err := os.MkdirTemp(parent, "copy-*")
	require.NoError(t, err)
	require.NoError(t, os.CopyFS(to, os.DirFS(dir)))
	return to
}

func TestADamagedDatabaseWithoutSessionsOpens(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s, err := Open(dir, Options{})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	const transaction = pageHeaderBytes + 48
	for page := range int64(2) {
		flipped(t, filepath.Join(dir, databaseName), 8*(page*pageBytes+transaction), func() {
			s, err := Open(copied(t, t.TempDir(), dir), Options{})
			require.NoError(t, err)
			require.Empty(t, contents(t, s))
			require.NoError(t, s.Close())
		})
	}
}

// A power cut during a rebuilding may leave any part of its lock's file.
func TestATornLockOfARebuildingIsNoReasonNotToOpen(t *testing.T) {
	dir, _ := sample(t, 5)
	s, err := Open(dir, Options{})
	require.NoError(t, err)
	want := contents(t, s)
	require.NoError(t, s.Close())
	whole, err := os.ReadFile(filepath.Join(dir, databaseName))
	require.NoError(t, err)
	for name, torn := range map[string][]byte{
		"zeros": make([]byte, 4*pageBytes), "one sector": whole[:512], "garbage": bytes.Repeat([]byte{7}, 5000),
		"pages without meta pages": slices.Concat(make([]byte, 2*pageBytes), whole[2*pageBytes:]),
	} {
		flipped(t, filepath.Join(dir, databaseName), 8*(pageHeaderBytes+48), func() {
			damaged := copied(t, t.TempDir(), dir)
			require.NoError(t, os.WriteFile(filepath.Join(damaged, rebuildLockName), torn, 0o600))
			s, err := Open(damaged, Options{})
			require.NoError(t, err, name)
			require.Equal(t, want, contents(t, s), name)
			require.NoError(t, s.Close())
			require.NoFileExists(t, filepath.Join(damaged, rebuildLockName))
		})
	}
}

func TestADeletedSnapshotIsOverwritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s, err := Open(dir, Options{})
	require.NoError(t, err)
	epoch, err := s.Create(background, "a", nil, 0)
	require.NoError(t, err)
	links := 0
	look := func() (blocks [][]byte) {
		for n := range links {
			content, err := os.ReadFile(filepath.Join(dir, "..", fmt.Sprint("link-", n)))
			require.NoError(t, err)
			require.NotEmpty(t, content)
			blocks = append(blocks, bytes.Trim(content, "\x00"))
		}
		return blocks
	}
	for at := range int64(3) {
		require.NoError(t, s.WriteSnapshot(background, "a", epoch, at, func(w io.Writer) error {
			_, err := w.Write([]byte("the state of a session"))
			return err
		}))
		name := filepath.Join(dir, snapshotsFolder, snapshotName("a", at))
		require.NoError(t, os.Link(name, filepath.Join(dir, "..", fmt.Sprint("link-", at))))
		links++
		require.NoError(t, s.Append(background, "a", epoch, at, Record{Text: []byte("x")}))
	}
	require.NoError(t, s.DropSnapshot(background, "a", epoch, 0))
	blocks := look()
	require.Empty(t, blocks[0], "the snapshot that was dropped")
	require.NotEmpty(t, blocks[1])
	require.NoError(t, s.Delete(background, "a", epoch))
	for _, content := range look() {
		require.Empty(t, content)
	}
	left, err := os.ReadDir(filepath.Join(dir, snapshotsFolder))
	require.NoError(t, err)
	require.Empty(t, left)
	require.NoError(t, s.Close())
}

func TestScrubFindsDamage(t *testing.T) {
	dir, _ := sample(t, 20)
	open := func() *Folder {
		s, err := Open(dir, Options{})
		require.NoError(t, err)
		return s
	}
	scrub := func(s *Folder) (found []*CorruptError, err error) {
		err = s.Scrub(background, ScrubOptions{ReadsPerSecond: 100_000,
			Report: func(d *CorruptError) { found = append(found, d) }})
		return found, err
	}
	s := open()
	found, err := scrub(s)
	require.NoError(t, err)
	require.Empty(t, found)
	var kept []string
	for _, name := range files(t, dir) {
		if filepath.Dir(name) == snapshotsFolder {
			kept = append(kept, name)
		}
	}
	flipped(t, filepath.Join(dir, kept[0]), 100, func() {
		found, err = scrub(s)
		require.NoError(t, err)
		require.Len(t, found, 1)
		require.Equal(t, kept[0], found[0].File)
		require.NoError(t, s.Err(), "a snapshot is no reason to end the store")
	})
	l, err := s.inspect()
	require.NoError(t, err)
	flipped(t, s.path(databaseName), int64(l.meta.root)*pageBytes*8, func() {
		found, err = scrub(s)
		require.ErrorIs(t, err, ErrFailed)
		require.Len(t, found, 1)
		require.Equal(t, int64(l.meta.root)*pageBytes, found[0].Byte)
		<-s.Failed()
		require.NoError(t, s.Close())
		require.NoError(t, open().Close(), "the next opening rebuilds it")
	})
}

func TestRescueTakesWhatReads(t *testing.T) {
	dir, _ := sample(t, 20)
	require.NoError(t, os.Remove(filepath.Join(dir, files(t, dir)[1])))
	s, err := Open(dir, Options{})
	require.NoError(t, err)
	want := contents(t, s)
	require.NoError(t, s.Close())
	path := filepath.Join(dir, databaseName)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	at := bytes.LastIndex(content, bytes.Repeat([]byte{7}, 67)) // the last text of session-07
	content[at] ^= 1
	require.NoError(t, os.WriteFile(path, content, 0o600))
	out := filepath.Join(t.TempDir(), "out")
	rescued := map[string]Rescued{}
	rescue := func() error {
		return Rescue(background, dir, out, RescueOptions{
			Session: func(r Rescued) { rescued[r.ID] = r }, Damage: func(*CorruptError) {},
			Progress: func(done, total int64) { require.LessOrEqual(t, done, total) },
		})
	}
	require.NoError(t, rescue())
	require.ErrorIs(t, rescue(), os.ErrExist)
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, content, after, "the damaged folder is as it was")
	require.NotEmpty(t, rescued["session-07"].Lost)
	require.Equal(t, int64(3*71), rescued["session-07"].End, "up to the last good record")
	require.NoError(t, Check(background, out, func(d *CorruptError) { t.Error(d) }))
	s, err = Open(out, Options{})
	require.NoError(t, err)
	got := contents(t, s)
	require.NoError(t, s.Close())
	require.Len(t, got, len(want))
	for id, text := range want {
		if id != "session-07" {
			require.Equal(t, text, got[id])
		}
	}
}

// A snapshot of text that is lost does not come along.
func TestRescueLeavesNoFileOfASnapshotBehindTheEnd(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s, err := Open(dir, Options{})
	require.NoError(t, err)
	epoch, err := s.Create(background, "a", []byte("{}"), 0)
	require.NoError(t, err)
	require.NoError(t, s.Append(background, "a", epoch, 0, Record{Text: []byte("first")}))
	require.NoError(t, s.Append(background, "a", epoch, 5, Record{Text: []byte("what is lost")}))
	require.NoError(t, s.WriteSnapshot(background, "a", epoch, 17, func(w io.Writer) error {
		_, err := w.Write([]byte("the state at the end"))
		return err
	}))
	require.NoError(t, s.Close())
	path := filepath.Join(dir, databaseName)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	content = bytes.ReplaceAll(content, []byte("what is lost"), []byte("what is LOST"))
	require.NoError(t, os.WriteFile(path, content, 0o600))

	s, err = Open(dir, Options{})
	require.NoError(t, err)
	found, err := s.Get(background, "a")
	require.NoError(t, err)
	require.ErrorIs(t, found.Err, ErrCorrupt)
	require.Equal(t, int64(5), found.End, "where the damaged record begins")
	require.Equal(t, []byte("{}"), found.Head)
	text := ""
	require.NoError(t, s.Read(background, "a", 0, func(_ int64, r Record) error {
		text += string(r.Text)
		return nil
	}))
	require.Equal(t, "first", text)
	listed, err := s.List(background, "", 10)
	require.NoError(t, err)
	require.Equal(t, []Session{found}, listed)
	require.NoError(t, s.Close())

	out := filepath.Join(t.TempDir(), "out")
	require.NoError(t, Rescue(background, dir, out, RescueOptions{
		Session: func(Rescued) {}, Damage: func(*CorruptError) {}, Progress: func(int64, int64) {},
	}))
	require.NoError(t, Check(background, out, func(d *CorruptError) { t.Error(d) }))
}
