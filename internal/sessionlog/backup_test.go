package sessionlog

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// filled opens a folder with everything that a script leaves behind.
func filled(t *testing.T) (*Folder, string) {
	dir := filepath.Join(t.TempDir(), "data")
	s, err := OpenUnsynced(dir)
	require.NoError(t, err)
	for n, x := range newScript().steps() {
		if n > 16 { // later steps delete
			break
		}
		require.NoError(t, x.do(s), x.name)
	}
	return s, dir
}

func readBackupOf(t *testing.T, b *Backup) []byte {
	r := b.Open()
	content, err := io.ReadAll(r)
	require.NoError(t, err)
	require.NoError(t, r.Close())
	require.EqualValues(t, b.Size(), len(content))
	return content
}

func noDamage(t *testing.T) func(*CorruptError) {
	return func(d *CorruptError) { t.Error(d) }
}

// restored gives what a backup holds.
func restored(t *testing.T, content []byte) string {
	dir := filepath.Join(t.TempDir(), "restored")
	require.NoError(t, Restore(background, bytes.NewReader(content), dir, noDamage(t)))
	require.NoError(t, Check(background, dir, noDamage(t)))
	s, err := OpenUnsynced(dir)
	require.NoError(t, err)
	defer s.Close()
	return mustDump(t, s)
}

// A backup is the folder as it was when the backup was begun, at any number of commits before it,
// whatever is written, dropped and deleted while it is read.
func TestABackupIsTheFolderOfOneMoment(t *testing.T) {
	s, dir := filled(t)
	for n := range 4 { // the transactions' numbers are even and odd
		at := int64(n)
		before := mustDump(t, s)
		b, err := s.Backup(background)
		require.NoError(t, err)
		_, err = s.Backup(background)
		require.ErrorIs(t, err, ErrBackup)
		id := fmt.Sprint("new-", n)
		epoch, err := s.Create(background, id, nil, 0)
		require.NoError(t, err)
		require.NoError(t, s.Append(background, id, epoch, 0, Record{Text: []byte("after it")}))
		if n == 2 {
			require.NoError(t, s.Delete(background, "a", 0))
			require.NoError(t, s.Delete(background, "b", 0))
			// Another session of the same name keeps its own snapshots.
			epoch, err := s.Create(background, "a", nil, 0)
			require.NoError(t, err)
			require.NoError(t, s.WriteSnapshot(background, "a", epoch, 0, func(w io.Writer) error {
				_, err := w.Write([]byte("another"))
				return err
			}))
		}
		require.Equal(t, before, restored(t, readBackupOf(t, b)), at)
		require.NoError(t, b.Close())
		require.NoError(t, b.Close(), "it may be closed again")
		noLeftovers(t, "after a backup", dir)
	}
	_, err := s.Snapshots(background, "a")
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.NoError(t, Check(background, dir, noDamage(t)))
}

func TestABackupIsReadFromAnyOffset(t *testing.T) {
	s, _ := filled(t)
	defer s.Close()
	b, err := s.Backup(background)
	require.NoError(t, err)
	defer b.Close()
	whole := readBackupOf(t, b)
	require.Equal(t, whole, readBackupOf(t, b))
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		at := random.Int64N(b.Size())
		r := b.Open()
		_, err := r.Seek(at, io.SeekStart)
		require.NoError(t, err)
		rest, err := io.ReadAll(r)
		require.NoError(t, err)
		require.NoError(t, r.Close())
		require.True(t, bytes.Equal(whole[at:], rest), at)
	}
}

func TestAReaderOfABackupThatHasEndedFails(t *testing.T) {
	s, dir := filled(t)
	b, err := s.Backup(background)
	require.NoError(t, err)
	r := b.Open()
	_, err = io.ReadFull(r, make([]byte, 2000))
	require.NoError(t, err)
	require.NoError(t, s.Close())
	_, err = r.Read(make([]byte, 1))
	require.ErrorIs(t, err, ErrClosed)
	require.NoError(t, r.Close())
	noLeftovers(t, "after closing under a backup", dir)
}

func TestAFolderOpenForReadingIsBackedUpAsItIs(t *testing.T) {
	s, dir := filled(t)
	require.NoError(t, s.Close())
	s, err := Open(dir, Options{ReadOnly: true})
	require.NoError(t, err)
	defer s.Close()
	b, err := s.Backup(background)
	require.NoError(t, err)
	defer b.Close()
	noLeftovers(t, "while a backup is read", dir)
	require.Equal(t, mustDump(t, s), restored(t, readBackupOf(t, b)))
}

// A file that is cut or changed anywhere is refused and leaves nothing; but a snapshot that is
// damaged is left out and named.
func TestADamagedBackupIsRefused(t *testing.T) {
	s, _ := filled(t)
	defer s.Close()
	b, err := s.Backup(background)
	require.NoError(t, err)
	defer b.Close()
	whole := readBackupOf(t, b)
	dir := filepath.Join(t.TempDir(), "restored")
	nothing := func(content []byte, why any) {
		require.ErrorIs(t, Restore(background, bytes.NewReader(content), dir, noDamage(t)), ErrNoBackup, why)
		require.ErrorIs(t, CheckBackup(background, bytes.NewReader(content), noDamage(t)), ErrNoBackup, why)
		left, err := os.ReadDir(filepath.Dir(dir))
		require.NoError(t, err)
		require.Empty(t, left, why)
	}
	last := b.archive.members[len(b.archive.members)-1]
	end := last.start + tarBlock + last.size
	for at := int64(0); at < end; at += end/40 + 1 {
		nothing(whole[:at], at)
	}
	for _, more := range []byte{0, 'x'} {
		nothing(append(bytes.Clone(whole), more), "a byte after the end")
	}
	db := b.archive.members[1]
	for _, at := range []int64{0, 530, db.start, db.start + tarBlock + db.size/2} {
		changed := bytes.Clone(whole)
		changed[at] ^= 4
		nothing(changed, at)
	}
	changed := bytes.Clone(whole)
	changed[last.start+tarBlock+last.size/2] ^= 4
	var found []*CorruptError
	require.NoError(t, Restore(background, bytes.NewReader(changed), dir, func(d *CorruptError) { found = append(found, d) }))
	require.Len(t, found, 1)
	require.Equal(t, last.name, found[0].File)
	require.NoFileExists(t, filepath.Join(dir, last.name))
	require.ErrorIs(t, Restore(background, bytes.NewReader(whole), dir, nil), os.ErrExist)
}

// A folder appears whole or not at all: any operation may fail.
func TestARestoreThatFailsLeavesNothing(t *testing.T) {
	s, _ := filled(t)
	defer s.Close()
	b, err := s.Backup(background)
	require.NoError(t, err)
	defer b.Close()
	whole := readBackupOf(t, b)
	for n := 0; ; n++ {
		dir := filepath.Join(t.TempDir(), "restored")
		fault := &counting{fail: n}
		err := restore(background, bytes.NewReader(whole), dir, noDamage(t), environment{files: fault})
		if err == nil {
			require.Greater(t, n, 4)
			return
		}
		require.ErrorIs(t, err, errIO)
		if left, _ := os.ReadDir(filepath.Dir(dir)); len(left) > 0 { // the last step had failed
			require.Equal(t, "restored", left[0].Name())
			require.NoError(t, Check(background, dir, noDamage(t)))
		}
	}
}

// Deletions that meet the copying of the database wait for it, and then their text is gone from
// everything but the backup; when the backup ends, from that as well.
func TestDeletionsOutlastABackup(t *testing.T) {
	s, dir := filled(t)
	secret := []byte("what nobody is to find")
	epoch, err := s.Create(background, "secret", nil, 0)
	require.NoError(t, err)
	require.NoError(t, s.Append(background, "secret", epoch, 0, Record{Text: secret}))
	require.NoError(t, s.held.begin())
	deleted := make(chan error)
	go func() { deleted <- s.Delete(background, "secret", 0) }()
	other, err := s.Create(background, "other", nil, 0)
	require.NoError(t, err)
	require.NoError(t, s.Append(background, "other", other, 0, Record{Text: []byte("goes on")}))
	select {
	case <-deleted:
		t.Fatal("the deletion was answered, and its pages may be in use")
	case <-time.After(50 * time.Millisecond):
	}
	require.NoError(t, (&Backup{f: s}).release(background, nil))
	require.NoError(t, <-deleted)
	require.Empty(t, s.held.end())
	content, err := os.ReadFile(filepath.Join(dir, databaseName))
	require.NoError(t, err)
	require.False(t, bytes.Contains(content, secret))
	require.NoError(t, s.Close())
}
