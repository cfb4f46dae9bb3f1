package sessionlog

import (
	"bytes"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// counting fails one operation that changes something, and all after it: the process has ended.
type counting struct {
	osFiles
	n, fail int
}

func (c *counting) next() error {
	c.n++
	if c.n > c.fail {
		return errIO
	}
	return nil
}

func (c *counting) OpenFile(name string, flag int, perm fs.FileMode) (file, error) {
	if flag&os.O_CREATE != 0 {
		if err := c.next(); err != nil {
			return nil, err
		}
	}
	return c.osFiles.OpenFile(name, flag, perm)
}

func (c *counting) Link(from, to string) error {
	if err := c.next(); err != nil {
		return err
	}
	return c.osFiles.Link(from, to)
}

func (c *counting) Rename(from, to string) error {
	if err := c.next(); err != nil {
		return err
	}
	return c.osFiles.Rename(from, to)
}

func (c *counting) Remove(name string) error {
	if err := c.next(); err != nil {
		return err
	}
	return c.osFiles.Remove(name)
}

func (c *counting) SyncDir(name string) error {
	if err := c.next(); err != nil {
		return err
	}
	return c.osFiles.SyncDir(name)
}

// sparse is a folder most of whose database is free: as many bytes as were in the deleted sessions.
func sparse(t *testing.T, bytesFree int) (dir, content string) {
	s, dir := filled(t)
	epoch, err := s.Create(background, "large", nil, 0)
	require.NoError(t, err)
	text := bytes.Repeat([]byte("x"), MaxTextBytes)
	for at := 0; at < bytesFree; at += len(text) {
		require.NoError(t, s.Append(background, "large", epoch, int64(at), Record{Text: text}))
	}
	require.NoError(t, s.Delete(background, "large", 0))
	content = mustDump(t, s)
	require.NoError(t, s.Close())
	return dir, content
}

func sizeOf(t *testing.T, dir string) int64 {
	info, err := os.Stat(filepath.Join(dir, databaseName))
	require.NoError(t, err)
	return info.Size()
}

func TestCompactionGivesFreePagesBack(t *testing.T) {
	dir, content := sparse(t, 8<<20)
	before := sizeOf(t, dir)
	require.Greater(t, before, int64(8<<20))
	s, err := OpenUnsynced(dir)
	require.NoError(t, err)
	_, err = Compact(background, dir, nil, nil)
	require.ErrorIs(t, err, ErrInUse)
	require.NoError(t, s.Close())
	require.Equal(t, before, sizeOf(t, dir), "opening leaves a file of this size alone")

	done, err := Compact(background, dir, nil, nil)
	require.NoError(t, err)
	require.Equal(t, Compacted{Before: before, After: sizeOf(t, dir)}, done)
	require.Less(t, done.After, int64(1<<20))
	noLeftovers(t, "after a compaction", dir)
	reopened(t, "after a compaction", dir, content)
}

func TestOpeningCompactsAFileThatIsMostlyFree(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	dir, content := sparse(t, CompactFreeMin+4<<20)
	before := sizeOf(t, dir)
	var told []Compacted
	s, err := Open(dir, Options{Compacted: func(done Compacted, err error) {
		require.NoError(t, err)
		told = append(told, done)
	}})
	require.NoError(t, err)
	require.Equal(t, []Compacted{{Before: before, After: told[0].After}}, told)
	require.Less(t, told[0].After, int64(1<<20))
	// The new file is the one that is written to.
	epoch, err := s.Create(background, "new", nil, 0)
	require.NoError(t, err)
	require.NoError(t, s.Append(background, "new", epoch, 0, Record{Text: []byte("text")}))
	with := mustDump(t, s)
	require.NotEqual(t, content, with)
	require.NoError(t, s.Close())
	reopened(t, "after a compaction at opening", dir, with)
}

// Whatever operation is the last one, the folder has the old file or the new one, whole.
func TestACompactionThatIsCutLeavesTheOldFileOrTheNew(t *testing.T) {
	for n := 0; ; n++ {
		dir, content := sparse(t, 2<<20)
		fault := &counting{fail: n}
		_, err := compact(background, dir, nil, nil, environment{files: fault, unsynced: true})
		if err == nil {
			require.GreaterOrEqual(t, fault.n, 4)
			return
		}
		reopened(t, fault.describe(), dir, content)
	}
}

func (c *counting) describe() string { return "cut at operation " + string(rune('0'+c.fail)) }

// A folder that is never closed gives its free pages back, too.
func TestADeletionCompactsAFileThatIsMostlyFree(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	dir := filepath.Join(t.TempDir(), "data")
	var told []Compacted
	s, err := open(dir, Options{Serving: true, Compacted: func(done Compacted, err error) {
		require.NoError(t, err)
		told = append(told, done)
	}}, environment{files: unsyncedFiles{}, unsynced: true})
	require.NoError(t, err)
	text := bytes.Repeat([]byte("x"), MaxTextBytes)
	epochs := map[string]uint64{}
	for _, id := range []string{"large", "small", "other"} {
		epochs[id], err = s.Create(background, id, nil, 0)
		require.NoError(t, err)
	}
	for at := 0; at < CompactFreeMin+4<<20; at += len(text) {
		require.NoError(t, s.Append(background, "large", epochs["large"], int64(at), Record{Text: text}))
	}
	require.NoError(t, s.Append(background, "small", epochs["small"], 0, Record{Text: []byte("stays")}))
	before := sizeOf(t, dir)

	b, err := s.Backup(background)
	require.NoError(t, err)
	require.NoError(t, s.Delete(background, "other", epochs["other"]))
	require.NoError(t, s.Delete(background, "large", epochs["large"]))
	// An answer that comes later says that the committer is done with the deletion.
	require.NoError(t, s.SetHead(background, "small", epochs["small"], nil))
	require.Empty(t, told, "while there is a backup")
	require.NoError(t, b.Close())
	require.Equal(t, before, sizeOf(t, dir))

	epoch, err := s.Create(background, "last", nil, 0)
	require.NoError(t, err)
	require.NoError(t, s.Delete(background, "last", epoch))
	require.NoError(t, s.Append(background, "small", epochs["small"], 5, Record{Text: []byte(" and goes on")}))
	require.Equal(t, []Compacted{{Before: before, After: told[0].After}}, told)
	require.Less(t, told[0].After, int64(1<<20))
	require.Less(t, s.Usage().Free, int64(1<<20))
	content := mustDump(t, s)
	require.Contains(t, content, "small")
	require.NoError(t, s.Close())
	noLeftovers(t, "after a compaction", dir)
	reopened(t, "after a compaction", dir, content)
}

// Reading does not notice that the file becomes another.
func TestReadingGoesOnWhileTheFileIsExchanged(t *testing.T) {
	s, _ := filled(t)
	defer s.Close()
	want := mustDump(t, s)
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if have, err := dump(s); err != nil || have != want {
					t.Errorf("%v: %s", err, have)
					return
				}
			}
		})
	}
	for range 20 {
		l, err := s.inspect()
		require.NoError(t, err)
		_, err = s.exchange(l)
		require.NoError(t, err)
	}
	close(stop)
	readers.Wait()
	_, err := s.Create(background, "new", nil, 0)
	require.NoError(t, err)
}

// Whatever operation of an exchange is the last one, the folder has the old file or the new one.
func TestAnExchangeThatIsCutLeavesTheOldFileOrTheNew(t *testing.T) {
	for n := 0; ; n++ {
		dir, content := sparse(t, 2<<20)
		fault := &counting{fail: math.MaxInt}
		s, err := open(dir, Options{}, environment{files: fault, unsynced: true})
		require.NoError(t, err)
		l, err := s.inspect()
		require.NoError(t, err)
		fault.n, fault.fail = 0, n
		_, err = s.exchange(l)
		ended := err == nil
		_ = s.Close()
		reopened(t, fault.describe(), dir, content)
		if ended {
			require.GreaterOrEqual(t, fault.n, 4)
			return
		}
	}
}

// Checking and compacting tell how far they are, and never that they go back.
func TestCheckAndCompactTellHowFarTheyAre(t *testing.T) {
	dir, _ := sparse(t, 8<<20)
	whole := sizeOf(t, dir)
	type told struct{ done, total int64 }
	var all []told
	tell := func(done, total int64) {
		if n := len(all); n > 0 {
			require.GreaterOrEqual(t, done, all[n-1].done)
		}
		if total > 0 {
			require.LessOrEqual(t, done, total)
		}
		all = append(all, told{done, total})
	}
	none := func(d *CorruptError) { t.Error(d) }
	require.NoError(t, CheckWithProgress(background, dir, none, tell))
	require.Equal(t, int64(0), all[0].done)
	require.Equal(t, whole, all[0].total-(&Folder{
		dir: dir, environment: environment{files: osFiles{}},
	}).snapshotBytes())
	last := all[len(all)-1]
	require.Equal(t, told{all[0].total, 0}, last, "how long the last part takes nobody knows")

	all = nil
	_, err := Compact(background, dir, nil, tell)
	require.NoError(t, err)
	last = all[len(all)-1]
	require.Greater(t, last.total, whole)
	require.Equal(t, last.total, last.done)
}
