package sessionlog

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
)

// TestAFailedSyncIsFatal lets fdatasync fail, which bbolt calls itself: just before, its descriptor is made that of a pipe, which cannot be synced. It is
// called twice in a commit, before and after the meta page.
func TestAFailedSyncIsFatal(t *testing.T) {
	for name, breaks := range map[string]func(off int64) bool{
		"of the data":      func(off int64) bool { return off >= 2*pageBytes },
		"of the meta page": func(off int64) bool { return off < 2*pageBytes },
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			var broken *swapped
			s, err := open(dir, Options{}, environment{files: osFiles{}, opened: func(db *bbolt.DB) { broken = swap(t, db, breaks) }})
			require.NoError(t, err)
			epoch, err := s.Create(background, "a", nil, 0)
			require.NoError(t, err)
			require.NoError(t, s.Append(background, "a", epoch, 0, Record{Text: []byte("acknowledged")}))
			before := mustDump(t, s)

			broken.armed = true
			failed := s.Append(background, "a", epoch, 12, Record{Text: []byte("never")})
			require.ErrorIs(t, failed, ErrFailed)
			require.ErrorIs(t, failed, syscall.EINVAL, "fdatasync of a pipe")
			<-s.Failed()
			writes := broken.writes
			require.Equal(t, failed, s.Append(background, "a", epoch, 12, Record{Text: []byte("never")}))
			require.Equal(t, failed, s.Err())
			require.Equal(t, writes, broken.writes, "never retried")
			broken.restore(t)
			require.NoError(t, s.Close())

			s, err = Open(dir, Options{})
			require.NoError(t, err)
			defer s.Close()
			if name == "of the data" { // no meta page was written after it
				require.Equal(t, before, mustDump(t, s))
			} else { // nobody was told, but here it got there
				got, err := s.Get(background, "a")
				require.NoError(t, err)
				require.Equal(t, int64(17), got.End)
			}
		})
	}
}

// swapped is a database file whose descriptor may be replaced by that of a pipe.
type swapped struct {
	armed  bool
	writes int
	fd     int
	real   *os.File // the same open file under another number
	pipe   [2]*os.File
}

func swap(t *testing.T, db *bbolt.DB, when func(off int64) bool) *swapped {
	s := new(swapped)
	s.fd = int(reflect.ValueOf(db).Elem().FieldByName("file").Elem().FieldByName("file").Elem().FieldByName("pfd").FieldByName("Sysfd").Int())
	duplicate, err := syscall.Dup(s.fd)
	require.NoError(t, err)
	s.real = os.NewFile(uintptr(duplicate), "real")
	s.pipe[0], s.pipe[1], err = os.Pipe()
	require.NoError(t, err)
	*writeAtOf(db) = func(p []byte, off int64) (int, error) {
		s.writes++
		if s.armed && when(off) {
			if err := syscall.Dup3(int(s.pipe[1].Fd()), s.fd, syscall.O_CLOEXEC); err != nil {
				return 0, err
			}
		}
		return s.real.WriteAt(p, off)
	}
	return s
}

func (s *swapped) restore(t *testing.T) {
	require.NoError(t, syscall.Dup3(int(s.real.Fd()), s.fd, syscall.O_CLOEXEC))
	for _, f := range []io.Closer{s.real, s.pipe[0], s.pipe[1]} {
		require.NoError(t, f.Close())
	}
}

// TestNoDescriptorIsLeftBehind opens, uses and closes folders.
func TestNoDescriptorIsLeftBehind(t *testing.T) {
	count := func() int {
		names, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		return len(names)
	}
	dir := filepath.Join(t.TempDir(), "data")
	before := count()
	for n := range 5 {
		s, err := Open(dir, Options{})
		require.NoError(t, err)
		id := fmt.Sprint("a", n)
		epoch, err := s.Create(background, id, nil, 0)
		require.NoError(t, err)
		require.NoError(t, s.WriteSnapshot(background, id, epoch, 0, func(w io.Writer) error { return nil }))
		mustDump(t, s)
		_, err = Open(dir, Options{})
		require.ErrorIs(t, err, ErrInUse)
		require.NoError(t, s.Delete(background, id, 0))
		require.NoError(t, s.Close())
		require.NoError(t, Check(background, dir, func(d *CorruptError) { t.Error(d) }))
	}
	require.Equal(t, before, count())
}

// TestDamageUnderAnOpenStoreEndsIt damages the file under the store: what bbolt answers with a panic, and the system with a fault, is an error.
func TestDamageUnderAnOpenStoreEndsIt(t *testing.T) {
	for name, damage := range map[string]func(path string, size int64) error{
		"pages of zeros": func(path string, size int64) error {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err == nil {
				_, err = f.WriteAt(make([]byte, size-2*pageBytes), 2*pageBytes)
				f.Close()
			}
			return err
		},
		"cut off": func(path string, _ int64) error { return os.Truncate(path, 2*pageBytes) },
	} {
		for call, do := range map[string]func(s Store) error{
			"get":  func(s Store) error { _, err := s.Get(background, "b"); return err },
			"list": func(s Store) error { _, err := s.List(background, "", 10); return err },
			"read": func(s Store) error { return s.Read(background, "b", 0, nil) },
			"append": func(s Store) error {
				return s.Append(background, "b", 4, 5178, Record{Text: []byte("x")})
			},
		} {
			t.Run(name+", "+call, func(t *testing.T) {
				dir, _ := sample(t, 5)
				s, err := Open(dir, Options{})
				require.NoError(t, err)
				info, err := os.Stat(s.path(databaseName))
				require.NoError(t, err)
				require.NoError(t, damage(s.path(databaseName), info.Size()))
				err = do(s)
				require.ErrorIs(t, err, ErrFailed)
				require.Equal(t, err, s.Err())
				require.NoError(t, s.Close())
				_, err = Open(dir, Options{})
				require.ErrorIs(t, err, ErrCorrupt)
			})
		}
	}
}
