package sessionlog_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lmserve/lmserve/internal/sessionlog"
	"github.com/lmserve/lmserve/internal/sessionlog/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemoryIsAStore(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Backend {
		s := sessionlog.NewMemory()
		return storetest.Backend{Open: func() (sessionlog.Store, error) { return s, nil }}
	})
}

func TestFolderIsAStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Backend { return newFolder(t).backend() })
}

// folder is a data folder that moves on with every crash.
type folder struct {
	t    *testing.T
	dir  string
	rand *rand.Rand
}

func newFolder(t *testing.T) *folder {
	return &folder{t: t, dir: filepath.Join(t.TempDir(), "data"), rand: rand.New(rand.NewPCG(1, 2))}
}

func (f *folder) backend() storetest.Backend {
	return storetest.Backend{
		Open: func() (sessionlog.Store, error) { return sessionlog.OpenUnsynced(f.dir) },
		Crash: func(s sessionlog.Store) error {
			left, err := os.MkdirTemp(f.t.TempDir(), "") // as it is while the store is open
			if err == nil {
				err = os.CopyFS(left, os.DirFS(f.dir))
			}
			f.dir = left
			return errors.Join(err, s.Close(), f.litter())
		},
	}
}

// litter leaves what a process leaves that is killed in the middle of things.
func (f *folder) litter() error {
	return errors.Join(
		os.WriteFile(filepath.Join(f.dir, "lmserve.db.0123.tmp"), []byte("half a data"), 0o600),
		os.WriteFile(filepath.Join(f.dir, "snapshots", "a.0000000000000003.safetensors.zst.0123.tmp"), []byte("half a snap"), 0o600),
		os.WriteFile(filepath.Join(f.dir, "snapshots", "a.0000000000000fff.safetensors.zst"), []byte("never entered"), 0o600),
		sessionlog.ScribbleFree(f.dir, f.rand),
	)
}

func TestOpenRemovesWhatWasLeft(t *testing.T) {
	f := newFolder(t)
	s, err := sessionlog.Open(f.dir, sessionlog.Options{})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.NoError(t, f.litter())

	strays := 0
	require.NoError(t, sessionlog.Check(t.Context(), f.dir, func(d *sessionlog.CorruptError) {
		require.True(t, d.Stray, d.Error())
		strays++
	}))
	require.Equal(t, 3, strays)
	s, err = sessionlog.Open(f.dir, sessionlog.Options{ReadOnly: true})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	s, err = sessionlog.Open(f.dir, sessionlog.Options{})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.NoError(t, sessionlog.Check(t.Context(), f.dir, func(d *sessionlog.CorruptError) { t.Error(d) }))
	names, err := os.ReadDir(filepath.Join(f.dir, "snapshots"))
	require.NoError(t, err)
	require.Empty(t, names)
}
