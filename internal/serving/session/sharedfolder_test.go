package session

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/serving/storage"
	datafolder "github.com/lmserve/lmserve/internal/serving/storage/folder"
)

// sharedFolder is a data folder in the role of a shared store, for tests with only one server.
type sharedFolder struct {
	storage.Store
	made    func(id string)             // called after the creation of a session
	expire  func()                      // called by Expire
	release func(context.Context) error // called by Release
}

func newSharedFolder(t *testing.T) *sharedFolder {
	store, err := datafolder.Open(t.TempDir(), datafolder.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return &sharedFolder{
		Store: store, made: func(string) {}, expire: func() {},
		release: func(context.Context) error { return nil },
	}
}

func (f *sharedFolder) Locate(
	ctx context.Context, owner, text string,
) (at storage.Place, err error) {
	err = storage.Each(ctx, f.Store, func(found storage.Session) error {
		terms := TermsOf(found.Head)
		if found.ID == text || terms.Name == text && terms.Owner == owner {
			at = storage.Place{ID: found.ID, Owner: terms.Owner}
		}
		return nil
	})
	if err == nil && at.ID == "" {
		err = storage.NotFound(text)
	}
	return at, err
}

func (f *sharedFolder) ListOf(
	ctx context.Context, _ string, _ bool, after string, limit int,
) ([]storage.Session, error) {
	return f.List(ctx, after, limit)
}

func (f *sharedFolder) Within(int) storage.Store { return f }

func (f *sharedFolder) Create(
	ctx context.Context, id string, head []byte, start int64,
) (uint64, error) {
	epoch, err := f.Store.Create(ctx, id, head, start)
	f.made(id)
	return epoch, err
}

func (f *sharedFolder) Release(ctx context.Context, _ string, _ uint64, _ time.Duration) error {
	return f.release(ctx)
}

func (f *sharedFolder) Expire(context.Context, int) (int, error) {
	f.expire()
	return 0, nil
}

var _ storage.Shared = (*sharedFolder)(nil)

// Another request finds a new session in the store before the request that makes the session has
// registered it.
func TestSessionFoundWhileMadeIsOneSession(t *testing.T) {
	store := newSharedFolder(t)
	mg := newManager(t, Options{Store: store, Lease: ownLease{}})
	var found Info
	store.made = func(id string) {
		var err error
		found, err = mg.Get(Caller{}, id)
		require.NoError(t, err)
	}
	info, made, err := mg.Put(t.Context(), Caller{}, "news", CreateRequest{})
	require.NoError(t, err)
	require.True(t, made)
	require.Equal(t, found.ID, info.ID)
	require.Equal(t, 1, mg.Stats().Sessions)
	score(t, mg, "news", "text")
	require.True(t, mg.Holds(info.ID))
	require.NoError(t, mg.Delete(Caller{}, info.ID))
	require.Zero(t, mg.Stats().Sessions)
	require.Zero(t, mg.Stats().MemoryBytes)
}

// A fork fails, and so does its deletion. The server deletes the fork later, because nobody finds
// the fork by its name.
func TestFailedForkIsDeletedLater(t *testing.T) {
	store := newSharedFolder(t)
	heads := &faultyStore{Store: store.Store}
	deletions := &faultyStore{Store: heads}
	store.Store = deletions
	mg := newManager(t, Options{Store: store, Lease: ownLease{}})
	id := create(t, mg, CreateRequest{})
	heads.fail("SetHead", storage.ErrUnavailable, false)
	deletions.fail("Delete", storage.ErrUnavailable, false)
	_, err := mg.Fork(t.Context(), Caller{}, id, ForkRequest{Name: "news"})
	require.ErrorIs(t, err, ErrUnavailable)
	require.Equal(t, []int{1, 1}, []int{heads.hit, deletions.hit})
	soon(t, "the fork is deleted", func() bool {
		var ids []string
		err := storage.Each(t.Context(), heads, func(found storage.Session) error {
			ids = append(ids, found.ID)
			return nil
		})
		return err == nil && len(ids) == 1 && ids[0] == id
	})
}

// The store hangs while the server deletes expired sessions.
func TestDrainEndsWithItsContext(t *testing.T) {
	store := newSharedFolder(t)
	asked, answer := make(chan struct{}, 1), make(chan struct{})
	store.expire = func() {
		select {
		case asked <- struct{}{}:
		default:
		}
		<-answer
	}
	mg := newManager(t, Options{Store: store, Lease: ownLease{}})
	<-asked
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = mg.Drain(ctx)
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Error("Drain waits for the store")
	}
	close(answer)
}

// The store hangs while the server hands over its sessions. The deadline applies to all of them.
func TestHandOverEndsWhileStoreHangs(t *testing.T) {
	store := newSharedFolder(t)
	store.release = func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}
	var reported []error
	mg := newManager(t, Options{
		Store: store, Lease: ownLease{}, Threads: 1,
		Report: func(err error) { reported = append(reported, err) },
	})
	for range 2 * handOverMax {
		score(t, mg, create(t, mg, CreateRequest{}), "text")
	}
	<-requireHandOver(t, mg, 100*time.Millisecond)
	require.Empty(t, reported, "the sessions become free when the server leaves")
}

// Slow snapshots of other sessions take all slots. A session is then handed over without a
// snapshot.
func TestHandOverEndsWhileSnapshotsAreSlow(t *testing.T) {
	mg := newManager(t, Options{Store: newSharedFolder(t), Lease: ownLease{}, Threads: 1})
	id := create(t, mg, CreateRequest{})
	score(t, mg, id, "text")
	withSession(t, mg, id, func(s *session) { s.replayCost = replayWorth })
	mg.engine.snapshots.slots <- struct{}{}
	done := requireHandOver(t, mg, 10*time.Millisecond)
	<-mg.engine.snapshots.slots
	<-done
	require.False(t, mg.Holds(id))
}

// requireHandOver hands over all sessions, with a deadline. It requires that HandOver ends soon
// after the deadline. The returned channel is closed when HandOver ends.
func requireHandOver(t *testing.T, mg *Manager, deadline time.Duration) <-chan struct{} {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer cancel()
		mg.HandOver(ctx)
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Error("HandOver waits beyond its deadline")
	}
	return done
}
