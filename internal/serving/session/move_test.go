package session

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/serving/storage"
	datafolder "github.com/lmserve/lmserve/internal/serving/storage/folder"
)

// moveAll copies all sessions of one folder to another. Parameter wrap may replace the target's
// store, for example by a store that fails.
func moveAll(t *testing.T, from, to string,
	wrap func(storage.Store) storage.Store) map[string]Moved {
	t.Helper()
	source, err := datafolder.Open(from, datafolder.Options{ReadOnly: true, Existing: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, source.Close()) }()
	folder, err := datafolder.Open(to, datafolder.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, folder.Close()) }()
	all, done, whole := map[string]Moved{}, int64(0), int64(0)
	err = Move(t.Context(), source, wrap(folder), func(m Moved) { all[m.ID] = m },
		func(d, a int64) {
			require.GreaterOrEqual(t, d, done)
			done, whole = d, a
		})
	require.NoError(t, err)
	require.Equal(t, whole, done)
	return all
}

func asItIs(s storage.Store) storage.Store { return s }

// A copied session gives the same bits as the original. Incomplete copies are made again, existing
// sessions are kept, and differences are reported.
func TestMovedSessionsContinueToSameBits(t *testing.T) {
	here, there := t.TempDir(), t.TempDir()
	sv := newServer(t, here, Options{})
	named := putNamed(t, sv.mg, "news")
	plain := create(t, sv.mg, CreateRequest{Seed: ptr(uint64(7))})
	score(t, sv.mg, named, logText(150))
	sv.keep(named)
	score(t, sv.mg, named, logText(40))
	forked, err := sv.mg.Fork(background, Caller{}, named, ForkRequest{})
	require.NoError(t, err)
	score(t, sv.mg, plain, logText(70))
	sv.stop()

	broken := errors.New("broken")
	for _, call := range []string{"Create", "Append", "WriteSnapshot", "SetHead"} {
		moved := moveAll(t, here, there, func(s storage.Store) storage.Store {
			f := &faultyStore{Store: s}
			f.fail(call, broken, false)
			return f
		})
		failed := 0
		for _, m := range moved {
			if m.Err != nil {
				require.ErrorIs(t, m.Err, broken)
				failed++
			}
		}
		require.Equal(t, 1, failed, call)
		require.NoError(t, deleteAll(t, there))
	}
	for id, m := range moveAll(t, here, there, func(s storage.Store) storage.Store {
		f := &faultyStore{Store: s}
		f.fail("SetHead", broken, false)
		return f
	}) {
		require.Equal(t, id, m.ID)
	}
	moved := moveAll(t, here, there, asItIs)
	require.Len(t, moved, 3)
	again := 0
	for id, m := range moved {
		require.NoError(t, m.Err, id)
		if m.There {
			again++
		}
	}
	require.Equal(t, 2, again, "but for the one that was half-made")
	require.Equal(t, "news", moved[named].Name)

	sv = newServer(t, here, Options{})
	copied := newServer(t, there, Options{})
	for _, id := range []string{named, plain, forked.ID} {
		was, is := get(t, sv.mg, id), get(t, copied.mg, id)
		was.DiskBytes = is.DiskBytes // only the original fork shares its text, so the sizes differ
		require.Equal(t, was, is)
		want, _ := score(t, sv.mg, id, logText(90))
		got, _ := score(t, copied.mg, id, logText(90))
		require.Equal(t, logProbs(want), logProbs(got))
	}
	score(t, copied.mg, plain, "x")
	putNamed(t, copied.mg, "later")
	putNamed(t, sv.mg, "later")
	sv.stop()
	copied.stop()
	exists := 0
	for _, m := range moveAll(t, here, there, asItIs) {
		if errors.Is(m.Err, storage.ErrExists) {
			exists++
		}
	}
	require.Equal(t, 2, exists,
		"one that has more text there, and one whose name another has there")
}

func putNamed(t *testing.T, mg *Manager, name string) (id string) {
	info, _, err := mg.Put(background, Caller{}, name, CreateRequest{Seed: ptr(uint64(5))})
	require.NoError(t, err)
	return info.ID
}

func deleteAll(t *testing.T, dir string) error {
	store, err := datafolder.Open(dir, datafolder.Options{})
	require.NoError(t, err)
	err = storage.Each(t.Context(), store, func(s storage.Session) error {
		return store.Delete(t.Context(), s.ID, 0)
	})
	return errors.Join(err, store.Close())
}
