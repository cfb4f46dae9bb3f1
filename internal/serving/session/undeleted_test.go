package session

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/serving/storage"
)

// The store deletes a session, but its answer is lost.
func TestDeletionOfUnknownOutcomeIsDone(t *testing.T) {
	for _, made := range []bool{false, true} {
		sv, store := faulty(t, Options{})
		id := create(t, sv.mg, CreateRequest{})
		store.fail("Delete", storage.ErrUnknown, made)
		require.NoError(t, sv.mg.Delete(Caller{}, id))
		_, err := sv.store.Get(background, id)
		require.ErrorIs(t, err, storage.ErrNotFound)
		require.ErrorIs(t, sv.mg.Delete(Caller{}, id), ErrNotFound)
	}
}

// The deletion of an expired session fails. The server repeats the deletion when it makes another
// session.
func TestFailedDeletionIsRepeated(t *testing.T) {
	sv, store := faulty(t, Options{})
	now := time.Now()
	sv.mg.engine.clock.read = func() time.Time { return now }
	old := create(t, sv.mg, CreateRequest{TTL: time.Minute})
	score(t, sv.mg, old, "text")
	now = now.Add(time.Hour)
	store.fail("Delete", storage.ErrUnavailable, false)
	_, _, err := sv.mg.List(Caller{}, "", 0)
	require.NoError(t, err)
	require.Len(t, sv.told(), 1)
	_, err = sv.store.Get(background, old)
	require.NoError(t, err)
	create(t, sv.mg, CreateRequest{})
	_, err = sv.store.Get(background, old)
	require.ErrorIs(t, err, storage.ErrNotFound)
	sv.restart()
	_, err = sv.mg.Get(Caller{}, old)
	require.ErrorIs(t, err, ErrNotFound)
}

// namingStore refuses a name that a session in the store has, as a database does.
type namingStore struct{ *faultyStore }

func (s namingStore) Create(
	ctx context.Context, id string, head []byte, start int64,
) (uint64, error) {
	err := storage.Each(ctx, s.Store, func(found storage.Session) error {
		if TermsOf(found.Head).Name == TermsOf(head).Name {
			return storage.ErrTaken
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return s.faultyStore.Create(ctx, id, head, start)
}

func TestNameOfUndeletedSessionBecomesFree(t *testing.T) {
	store := new(faultyStore)
	sv := &server{t: t, dir: t.TempDir()}
	sv.wrap = func(s storage.Store) storage.Store { store.Store = s; return namingStore{store} }
	sv.start()
	defer func() { sv.stop() }()
	now := time.Now()
	sv.mg.engine.clock.read = func() time.Time { return now }
	_, _, err := sv.mg.Put(background, Caller{}, "news", CreateRequest{TTL: time.Minute})
	require.NoError(t, err)
	now = now.Add(time.Hour)
	store.fail("Delete", storage.ErrUnavailable, false)
	_, _, err = sv.mg.List(Caller{}, "", 0)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(background, 10*time.Second)
	defer cancel()
	_, made, err := sv.mg.Put(ctx, Caller{}, "news", CreateRequest{TTL: time.Minute})
	require.NoError(t, err)
	require.True(t, made)
}

func TestPutEndsWhenUnreadableSessionHasTheName(t *testing.T) {
	sv := &server{t: t, dir: t.TempDir()}
	sv.wrap = func(s storage.Store) storage.Store { return namingStore{&faultyStore{Store: s}} }
	sv.start()
	defer func() { sv.stop() }()
	h := testHead(t)
	h.Name = "news"
	_, err := sv.store.Create(background, h.ID, h.encode(), 0)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(background, 30*time.Second)
	defer cancel()
	_, _, err = sv.mg.Put(ctx, Caller{}, "news", CreateRequest{})
	require.ErrorAs(t, err, new(*NameTakenError))
}
