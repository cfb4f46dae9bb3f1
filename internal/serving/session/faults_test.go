package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/serving/storage"
)

type faultyStore struct {
	storage.Store

	mu   sync.Mutex
	call string // name of the call that fails next; "" if no call fails
	err  error
	done bool
	hit  int
}

// fail makes the next call with the given name fail. If made is true, the call returns the error
// but still has its effect.
func (f *faultyStore) fail(call string, err error, made bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.call, f.err, f.done = call, err, made
}

func (f *faultyStore) do(call string, make func() error) error {
	f.mu.Lock()
	err, made := f.err, f.done
	if failing := f.call == call; !failing {
		f.mu.Unlock()
		return make()
	}
	f.call = ""
	f.hit++
	f.mu.Unlock()
	if made {
		err = errors.Join(err, make())
	}
	return err
}

func (f *faultyStore) Create(ctx context.Context, id string, head []byte,
	start int64) (epoch uint64, err error) {
	err = f.do("Create", func() (err error) {
		epoch, err = f.Store.Create(ctx, id, head,
			start)
		return err
	})
	return epoch, err
}

func (f *faultyStore) Fork(
	ctx context.Context, from, id string, head []byte, cut storage.Cut,
) (epoch uint64, err error) {
	err = f.do("Fork", func() (err error) {
		epoch, err = f.Store.Fork(ctx, from, id, head,
			cut)
		return err
	})
	return epoch, err
}

func (f *faultyStore) Claim(ctx context.Context, id string) (s storage.Session, err error) {
	err = f.do("Claim", func() (err error) { s, err = f.Store.Claim(ctx, id); return err })
	return s, err
}

func (f *faultyStore) Get(ctx context.Context, id string) (s storage.Session, err error) {
	err = f.do("Get", func() (err error) { s, err = f.Store.Get(ctx, id); return err })
	return s, err
}

func (f *faultyStore) SetHead(ctx context.Context, id string, epoch uint64, head []byte) error {
	return f.do("SetHead", func() error { return f.Store.SetHead(ctx, id, epoch, head) })
}

func (f *faultyStore) Delete(ctx context.Context, id string, epoch uint64) error {
	return f.do("Delete", func() error { return f.Store.Delete(ctx, id, epoch) })
}

func (f *faultyStore) Append(ctx context.Context, id string, epoch uint64, at int64,
	records ...storage.Record) error {
	return f.do("Append", func() error { return f.Store.Append(ctx, id, epoch, at, records...) })
}

func (f *faultyStore) Read(ctx context.Context, id string, from int64,
	visit func(int64, storage.Record) error) error {
	return f.do("Read", func() error { return f.Store.Read(ctx, id, from, visit) })
}

func (f *faultyStore) Trim(ctx context.Context, id string, epoch uint64, before int64) error {
	return f.do("Trim", func() error { return f.Store.Trim(ctx, id, epoch, before) })
}

func (f *faultyStore) WriteSnapshot(ctx context.Context, id string, epoch uint64, at int64,
	write func(io.Writer) error) error {
	return f.do("WriteSnapshot", func() error {
		return f.Store.WriteSnapshot(ctx, id, epoch, at,
			write)
	})
}

func (f *faultyStore) Snapshots(ctx context.Context, id string) (kept []storage.Snapshot,
	err error) {
	err = f.do("Snapshots", func() (err error) {
		kept, err = f.Store.Snapshots(ctx,
			id)
		return err
	})
	return kept, err
}

func (f *faultyStore) ReadSnapshot(ctx context.Context, id string, at int64,
	read func(io.Reader) error) error {
	return f.do("ReadSnapshot", func() error { return f.Store.ReadSnapshot(ctx, id, at, read) })
}

func (f *faultyStore) DropSnapshot(ctx context.Context, id string, epoch uint64, at int64) error {
	return f.do("DropSnapshot", func() error { return f.Store.DropSnapshot(ctx, id, epoch, at) })
}

func faulty(t *testing.T, o Options) (*server, *faultyStore) {
	store := new(faultyStore)
	sv := &server{t: t, dir: t.TempDir(), options: o}
	sv.wrap = func(s storage.Store) storage.Store { store.Store = s; return store }
	sv.start()
	t.Cleanup(sv.stop)
	return sv, store
}

func feed(sv *server, id, text string, at int64) (Summary, error) {
	return sv.mg.Score(background, Caller{}, id, strings.NewReader(text), ScoreOptions{Offset: &at},
		noChunks)
}

// requireText checks that the session equals a stream that was fed only the given text.
func requireText(t *testing.T, sv *server, id, text string) {
	t.Helper()
	requireFed(t, sv.mg, id, text)
	require.Equal(t, text, logged(t, sv.mg, id))
	require.Equal(t, int64(len(text)), get(t, sv.mg, id).Offset)
}

// An append fails, and it is unknown whether the store has the record. The session then continues
// from what the store contains.
func TestAppendOfUnknownOutcomeIsLookedUp(t *testing.T) {
	for _, made := range []bool{false, true} {
		sv, store := faulty(t, Options{ReplayMax: time.Hour})
		id, text := create(t, sv.mg, CreateRequest{}), logText(3*testChunk)
		score(t, sv.mg, id, text[:testChunk+5])
		store.fail("Append", storage.ErrUnknown, made)
		_, err := feed(sv, id, text[testChunk+5:testChunk+9], testChunk+5)
		require.ErrorIs(t, err, ErrUnknown)
		require.Zero(t, get(t, sv.mg, id).MemoryBytes, "the stream was dropped")
		at := int64(testChunk + 5)
		if made {
			at += 4
		}
		require.Equal(t, at, get(t, sv.mg, id).Offset, "a client that asks is told the truth")
		var wrong *OffsetError
		_, err = feed(sv, id, "x", at+1)
		require.ErrorAs(t, err, &wrong)
		require.Equal(t, at, wrong.Have)
		_, err = feed(sv, id, text[at:], at)
		require.NoError(t, err)
		requireText(t, sv, id, text)
		require.Empty(t, sv.told())
	}
}

// After an append with unknown outcome, the session is claimed again. So a late write under the old
// claim is refused.
func TestAfterAnUnknownOutcomeTheSessionIsClaimedAnew(t *testing.T) {
	sv, store := faulty(t, Options{ReplayMax: time.Hour})
	id := create(t, sv.mg, CreateRequest{})
	score(t, sv.mg, id, "text")
	before, err := sv.store.Get(background, id)
	require.NoError(t, err)
	store.fail("Append", storage.ErrUnknown, false)
	_, err = feed(sv, id, "more", 4)
	require.ErrorIs(t, err, ErrUnknown)
	score(t, sv.mg, id, "more")
	err = sv.store.Append(background, id, before.Epoch, 8, storage.Record{Text: []byte("late")})
	require.ErrorIs(t, err, storage.ErrFenced)
	requireText(t, sv, id, "textmore")
}

func TestUnavailableStoreFailsOnlyTheRequest(t *testing.T) {
	sv, store := faulty(t, Options{ReplayMax: time.Hour})
	id, text := create(t, sv.mg, CreateRequest{}), logText(3*testChunk)
	score(t, sv.mg, id, text[:testChunk])
	sv.keep(id)
	score(t, sv.mg, id, text[testChunk:2*testChunk])
	size := get(t, sv.mg, id).MemoryBytes
	store.fail("Append", storage.ErrUnavailable, false)
	_, err := feed(sv, id, text[2*testChunk:], 2*testChunk)
	require.ErrorIs(t, err, ErrUnavailable)
	require.Equal(t, size, get(t, sv.mg, id).MemoryBytes, "the stream is as good as before")
	// The recovery of a state makes these calls.
	for _, call := range []string{"Claim", "Snapshots", "ReadSnapshot", "Read"} {
		sv.evict(id)
		withoutClaim(t, sv, id)
		store.fail(call, storage.ErrUnavailable, false)
		_, err := feed(sv, id, text[2*testChunk:], 2*testChunk)
		require.ErrorIs(t, err, ErrUnavailable, call)
	}
	for _, failed := range []error{storage.ErrNoSpace, errors.New("postgres: out of order")} {
		sv.evict(id)
		store.fail("ReadSnapshot", failed, false)
		_, err := feed(sv, id, text[2*testChunk:], 2*testChunk)
		require.ErrorIs(t, err, failed)
	}
	store.fail("Get", storage.ErrUnavailable, false)
	_, err = sv.mg.Complete(background, Caller{}, id, CompleteRequest{MaxTokens: 1}, noPieces)
	require.ErrorIs(t, err, ErrUnavailable)
	store.fail("Create", storage.ErrUnavailable, false)
	_, err = sv.mg.Create(background, Caller{}, CreateRequest{})
	require.ErrorIs(t, err, ErrUnavailable)
	store.fail("Delete", storage.ErrUnavailable, false)
	require.ErrorIs(t, sv.mg.Delete(Caller{}, id), ErrUnavailable)

	_, err = feed(sv, id, text[2*testChunk:], 2*testChunk)
	require.NoError(t, err)
	requireText(t, sv, id, text)
	require.Empty(t, sv.told(), "no snapshot was taken for a damaged one")
	kept, err := sv.store.Snapshots(background, id)
	require.NoError(t, err)
	require.Len(t, kept, 1)
}

// withoutClaim drops the claim, so that the next request claims the session as after a restart.
func withoutClaim(t *testing.T, sv *server, id string) {
	s, err := sv.mg.index.catalog.find(Caller{}, id)
	require.NoError(t, err)
	s.loseClaim()
}

func TestFailedSnapshotIsTakenLater(t *testing.T) {
	for _, err := range []error{storage.ErrUnavailable, storage.ErrUnknown} {
		sv, store := faulty(t, Options{ReplayMax: 1})
		id, text := create(t, sv.mg, CreateRequest{}), logText(3*testChunk)
		store.fail("WriteSnapshot", err, false)
		score(t, sv.mg, id, text[:testChunk])
		told := sv.told()
		require.Len(t, told, 1)
		require.ErrorIs(t, told[0], err)
		score(t, sv.mg, id, text[testChunk:])
		kept, err := sv.store.Snapshots(background, id)
		require.NoError(t, err)
		require.NotEmpty(t, kept)
		requireText(t, sv, id, text)
	}
}

// The session was deleted from the store, but is still in memory. A snapshot of the session then
// fails. This failure is expected, so it is neither reported nor counted.
func TestDeletionDuringSnapshotIsNoError(t *testing.T) {
	for _, call := range []string{"WriteSnapshot", "Snapshots"} {
		told := &recorded{}
		sv, store := faulty(t, Options{ReplayMax: 1, Observer: told})
		id := create(t, sv.mg, CreateRequest{})
		score(t, sv.mg, id, logText(testChunk))
		store.fail(call, fmt.Errorf("session %s: %w", id, storage.ErrNotFound), false)
		score(t, sv.mg, id, logText(testChunk))
		require.Equal(t, 1, store.hit, call)
		require.Empty(t, sv.told(), call)
		require.Empty(t, told.snapshotErrors, call)
	}
}

// A snapshot that could not be dropped is dropped together with the next snapshot.
func TestUndroppedSnapshotIsDroppedLater(t *testing.T) {
	for _, err := range []error{storage.ErrUnavailable, storage.ErrUnknown} {
		sv, store := faulty(t, Options{ReplayMax: 1, ForkSnapshots: 1})
		id, text := create(t, sv.mg, CreateRequest{}), logText(8*testChunk)
		score(t, sv.mg, id, text[:3*testChunk])
		require.Len(t, keptOffsets(t, sv, id), 3)
		store.fail("DropSnapshot", err, false)
		score(t, sv.mg, id, text[3*testChunk:4*testChunk])
		told := sv.told()
		require.Len(t, told, 1)
		require.ErrorIs(t, told[0], err)
		require.Len(t, keptOffsets(t, sv, id), 4)
		score(t, sv.mg, id, text[4*testChunk:])
		require.Len(t, keptOffsets(t, sv, id), 3)
		requireText(t, sv, id, text)
	}
}

func TestSessionOfUnknownOutcomeIsDeleted(t *testing.T) {
	for _, made := range []bool{false, true} {
		sv, store := faulty(t, Options{})
		id := create(t, sv.mg, CreateRequest{})
		score(t, sv.mg, id, logText(20))
		for _, call := range []string{"Fork", "SetHead", "Append"} {
			store.fail(call, storage.ErrUnknown, made)
			// the offset is within a record
			within := ForkRequest{AtOffset: ptr(int64(testChunk + 1))}
			_, err := sv.mg.Fork(background, Caller{}, id, within)
			require.ErrorIs(t, err, ErrUnknown, call)
		}
		store.fail("Create", storage.ErrUnknown, made)
		_, err := sv.mg.Create(background, Caller{}, CreateRequest{})
		require.ErrorIs(t, err, ErrUnknown)
		found, err := sv.store.List(background, "", 10)
		require.NoError(t, err)
		require.Len(t, found, 1)
		require.Equal(t, 1, sv.mg.index.registry.Places())
		require.Empty(t, sv.told())
	}
}

// Another server has claimed the session. So the store refuses every write, and the state in memory
// is dropped. The next request claims the session again and continues the other server's text.
func TestEveryWriteReactsToBeingFenced(t *testing.T) {
	text := logText(4 * testChunk)
	for name, request := range map[string]func(sv *server, id string) error{
		"append": func(sv *server, id string) error {
			_, err := sv.mg.Score(background, Caller{}, id, strings.NewReader("x"), ScoreOptions{},
				noChunks)
			return err
		},
		"snapshot": func(sv *server, id string) (err error) {
			s, err := sv.mg.index.catalog.find(Caller{}, id)
			require.NoError(sv.t, err)
			require.NoError(sv.t, s.lock(background))
			defer s.unlock()
			return s.writeStateLocked(background, s.stream)
		},
		"head": write(func(s *session) error {
			return s.setHeadLocked(background,
				&s.head)
		}),
		"trim": write(func(s *session) error { return s.trimLocked(background, 0) }),
		"drop snapshot": write(func(s *session) error {
			return s.dropSnapshotLocked(background,
				testChunk)
		}),
	} {
		sv, _ := faulty(t, Options{ReplayMax: time.Hour})
		id := create(t, sv.mg, CreateRequest{})
		score(t, sv.mg, id, text[:testChunk])
		sv.keep(id)
		score(t, sv.mg, id, text[testChunk:2*testChunk])
		more := takeOver(t, sv, id, text[2*testChunk:3*testChunk])
		require.ErrorIs(t, request(sv, id), storage.ErrFenced, name)
		require.Zero(t, get(t, sv.mg, id).MemoryBytes, name)
		require.Equal(t, more.End, get(t, sv.mg, id).Offset, name)
		_, err := feed(sv, id, text[3*testChunk:], 3*testChunk)
		require.NoError(t, err, name)
		requireText(t, sv, id, text)
		require.Empty(t, sv.told(), name)
	}
}

func write(do func(*session) error) func(sv *server, id string) error {
	return func(sv *server, id string) error {
		s, err := sv.mg.index.catalog.find(Caller{}, id)
		require.NoError(sv.t, err)
		require.NoError(sv.t, s.lock(background))
		defer s.unlock()
		return do(s)
	}
}

// takeOver claims and feeds a session as another server with the same store would.
func takeOver(t *testing.T, sv *server, id, text string) storage.Session {
	found, err := sv.store.Claim(background, id)
	require.NoError(t, err)
	other := newServer(t, t.TempDir(), Options{})
	defer other.stop()
	twin := create(t, other.mg, CreateRequest{})
	_, sum := score(t, other.mg, twin, logged(t, sv.mg, id)+text)
	r := storage.Record{UnixMS: 1, Bits: sum.Total.Bits, Text: []byte(text)}
	require.NoError(t, sv.store.Append(background, id, found.Epoch, found.End, r))
	found, err = sv.store.Get(background, id)
	require.NoError(t, err)
	return found
}

// Completions and exports write nothing to the store, so the store cannot refuse them after another
// server's claim. They check the claim themselves.
func TestCompletionContinuesTextOfAnotherServer(t *testing.T) {
	sv, _ := faulty(t, Options{ReplayMax: time.Hour})
	id, text := create(t, sv.mg, CreateRequest{}), logText(3*testChunk)
	score(t, sv.mg, id, text[:2*testChunk])
	takeOver(t, sv, id, text[2*testChunk:])
	twin := create(t, sv.mg, CreateRequest{})
	score(t, sv.mg, twin, text)
	r := CompleteRequest{MaxTokens: 2 * testChunk, Seed: ptr(uint64(1))}
	want, _ := complete(t, sv.mg, twin, r)
	got, _ := complete(t, sv.mg, id, r)
	require.Equal(t, want.Text, got.Text)
	require.Equal(t, int64(len(text)), got.Offset)

	takeOver(t, sv, id, "and more")
	imported, err := sv.mg.Import(background, Caller{},
		strings.NewReader(string(export(t, sv.mg, id))), "")
	require.NoError(t, err)
	require.Equal(t, text+"and more", logged(t, sv.mg, imported.ID))
	info, err := sv.mg.Fork(background, Caller{}, id, ForkRequest{})
	require.NoError(t, err)
	require.Equal(t, text+"and more", logged(t, sv.mg, info.ID))
}

func TestClaimByAnotherEndsRunningCompletion(t *testing.T) {
	sv, _ := faulty(t, Options{ReplayMax: time.Hour})
	id := create(t, sv.mg, CreateRequest{})
	score(t, sv.mg, id, logText(testChunk))
	first := true
	_, err := sv.mg.Complete(background, Caller{}, id,
		CompleteRequest{MaxTokens: 100 * (testChunk + pieceQueue)}, func(Piece) error {
			if first {
				takeOver(t, sv, id, "x")
			}
			first = false
			return nil
		})
	require.ErrorIs(t, err, storage.ErrFenced)
	requireText(t, sv, id, logText(testChunk)+"x")
}

// A request to delete a session succeeds, whichever server has claimed the session. Expiry on this
// server does not delete a session that another server has claimed or is making.
func TestOnlyRequestedDeletionIsUnfenced(t *testing.T) {
	sv, _ := faulty(t, Options{})
	asked := create(t, sv.mg, CreateRequest{})
	expired, moved := create(t, sv.mg, CreateRequest{TTL: time.Minute}),
		create(t, sv.mg, CreateRequest{TTL: time.Minute})
	for _, id := range []string{asked, moved} {
		_, err := sv.store.Claim(background, id)
		require.NoError(t, err)
	}
	require.NoError(t, sv.mg.Delete(Caller{}, asked))
	sv.mg.engine.clock.read = func() time.Time { return time.Now().Add(time.Hour) }
	page, _, err := sv.mg.List(Caller{}, "", 0)
	require.NoError(t, err)
	require.Empty(t, page)
	for id, gone := range map[string]bool{asked: true, expired: true, moved: false} {
		_, err := sv.store.Get(background, id)
		require.Equal(t, gone, errors.Is(err, storage.ErrNotFound))
	}
	require.Empty(t, sv.told())
}

// racingStore is a store in which another server completes a session just before this server
// deletes it as incomplete.
type racingStore struct {
	storage.Store
	id string
}

func (r *racingStore) Delete(ctx context.Context, id string, epoch uint64) error {
	if id == r.id {
		if _, err := r.Claim(ctx, id); err != nil {
			return err
		}
	}
	return r.Store.Delete(ctx, id, epoch)
}

func TestStartLeavesClaimsOfOthersAlone(t *testing.T) {
	sv := newServer(t, t.TempDir(), Options{})
	defer func() { sv.stop() }()
	id := create(t, sv.mg, CreateRequest{})
	found, err := sv.store.Claim(background, id)
	require.NoError(t, err)
	h, err := decodeHead(id, found.Head)
	require.NoError(t, err)
	h.Complete = false
	require.NoError(t, sv.store.SetHead(background, id, found.Epoch, h.encode()))
	sv.wrap = func(s storage.Store) storage.Store { return &racingStore{s, id} }
	sv.restart()
	_, err = sv.store.Get(background, id)
	require.NoError(t, err, "another makes it")
	_, err = sv.mg.Get(Caller{}, id)
	require.ErrorIs(t, err, ErrNotFound)
}

func TestSessionDeletedByAnotherVanishes(t *testing.T) {
	for name, use := range map[string]func(sv *server, id string) error{
		"score": func(sv *server, id string) error { _, err := feed(sv, id, "x", 3); return err },
		"complete": func(sv *server, id string) error {
			return errOf(sv.mg.Complete(background, Caller{}, id, CompleteRequest{MaxTokens: 1},
				noPieces))
		},
		"export": func(sv *server, id string) error {
			return sv.mg.Export(background, Caller{}, id,
				0, io.Discard, nil)
		},
		"fork": func(sv *server, id string) error {
			return errOf(sv.mg.Fork(background, Caller{}, id, ForkRequest{}))
		},
	} {
		sv, _ := faulty(t, Options{})
		id := create(t, sv.mg, CreateRequest{})
		score(t, sv.mg, id, "yes")
		require.NoError(t, sv.store.Delete(background, id, 0))
		require.ErrorIs(t, use(sv, id), ErrNotFound, name)
		page, _, err := sv.mg.List(Caller{}, "", 0)
		require.NoError(t, err)
		require.Empty(t, page, name)
		require.Zero(t, sv.mg.index.registry.Places(), name)
		require.Zero(t, sv.mg.index.budget.Used(), name)
	}
}

func TestReturnFromAnotherArithmeticIsRecorded(t *testing.T) {
	sv, _ := faulty(t, Options{ReplayMax: time.Hour})
	id := create(t, sv.mg, CreateRequest{})
	score(t, sv.mg, id, "text")
	found := takeOver(t, sv, id, "x")
	h, err := decodeHead(id, found.Head)
	require.NoError(t, err)
	h.noteNumerics(numerics{From: 4, Name: "abacus"})
	require.NoError(t, sv.store.SetHead(background, id, found.Epoch, h.encode()))
	_, err = feed(sv, id, "y", 4)
	require.ErrorIs(t, err, storage.ErrFenced)
	score(t, sv.mg, id, "y")
	told := sv.told()
	require.Len(t, told, 1)
	require.ErrorContains(t, told[0], "abacus up to offset 5")
}
