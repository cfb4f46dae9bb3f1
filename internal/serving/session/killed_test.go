package session

import (
	"bytes"
	"context"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/serving/storage"
)

// killedStore does a number of writes and then refuses all others, as if the process were killed.
type killedStore struct {
	storage.Store
	left int
}

func (k *killedStore) lives() error {
	if k.left--; k.left < 0 {
		return storage.ErrUnavailable
	}
	return nil
}

func (k *killedStore) Create(ctx context.Context, id string, head []byte, start int64) (uint64,
	error) {
	if err := k.lives(); err != nil {
		return 0, err
	}
	return k.Store.Create(ctx, id, head, start)
}

func (k *killedStore) Fork(
	ctx context.Context, from, id string, head []byte, cut storage.Cut,
) (uint64, error) {
	if err := k.lives(); err != nil {
		return 0, err
	}
	return k.Store.Fork(ctx, from, id, head, cut)
}

func (k *killedStore) SetHead(ctx context.Context, id string, epoch uint64, head []byte) error {
	if err := k.lives(); err != nil {
		return err
	}
	return k.Store.SetHead(ctx, id, epoch, head)
}

func (k *killedStore) Append(
	ctx context.Context, id string, epoch uint64, at int64, records ...storage.Record,
) error {
	if err := k.lives(); err != nil {
		return err
	}
	return k.Store.Append(ctx, id, epoch, at, records...)
}

func (k *killedStore) WriteSnapshot(
	ctx context.Context, id string, epoch uint64, at int64, write func(io.Writer) error,
) error {
	if err := k.lives(); err != nil {
		return err
	}
	return k.Store.WriteSnapshot(ctx, id, epoch, at, write)
}

func (k *killedStore) DropSnapshot(
	ctx context.Context, id string, epoch uint64, at int64,
) error {
	if err := k.lives(); err != nil {
		return err
	}
	return k.Store.DropSnapshot(ctx, id, epoch, at)
}

func (k *killedStore) Delete(ctx context.Context, id string, epoch uint64) error {
	if err := k.lives(); err != nil {
		return err
	}
	return k.Store.Delete(ctx, id, epoch)
}

// After the process was killed, the next start removes incomplete forks and imports. A special case
// is a session with HistoryTail: its log may begin above offset 0 and be empty.
func TestRestartRemovesHalfMadeSessions(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	text := logText(5*testChunk + 2)
	making := map[string]func(sv *server, id string, file []byte) error{
		"fork": func(sv *server, id string, _ []byte) error {
			return errOf(sv.mg.Fork(background, Caller{}, id, ForkRequest{}))
		},
		"fork in a record": func(sv *server, id string, _ []byte) error {
			at := ptr(int64(len(text) - 1))
			return errOf(sv.mg.Fork(background, Caller{}, id, ForkRequest{AtOffset: at}))
		},
		"import": func(sv *server, id string, file []byte) error {
			return errOf(sv.mg.Import(background, Caller{}, bytes.NewReader(file), ""))
		},
	}
	for name, make := range making {
		for _, history := range []string{HistoryFull, HistoryTail} {
			killed := 0
			for done := false; !done; killed++ {
				sv := newServer(t, t.TempDir(), Options{ReplayMax: 1, ForkSnapshots: 2})
				id := create(t, sv.mg, CreateRequest{History: history})
				score(t, sv.mg, id, text)
				file := export(t, sv.mg, id)
				sv.stop()
				k := &killedStore{left: killed}
				sv.options.ReplayMax = time.Hour
				sv.wrap = func(s storage.Store) storage.Store { k.Store = s; return k }
				sv.start()
				done = make(sv, id, file) == nil
				k.left = 0
				sv.told()
				verifySessions(t, sv)
				sv.stop()

				sv.wrap = nil
				sv.start()
				require.Empty(t, sv.told(), "%s, %s, killed before write %d", name, history, killed)
				want := 1
				if done {
					want = 2
				}
				require.Equal(t, want, sv.mg.index.registry.Places())
				requireClean(t, sv, want)
				sv.stop()
			}
			require.Greater(t, killed, 2)
		}
	}
}

// The server is killed after it has written a snapshot, and before it has dropped an older
// snapshot. The surplus snapshot is dropped when the next snapshot is written.
func TestKillWhileSnapshotsAreSpreadLeavesSession(t *testing.T) {
	text := logText(12*testChunk + 2)
	for killed, done := 0, false; !done; killed++ {
		k := &killedStore{left: 1 << 30}
		sv := newServer(t, t.TempDir(), Options{ReplayMax: 1, ForkSnapshots: 2})
		sv.wrap = func(s storage.Store) storage.Store { k.Store = s; return k }
		sv.restart()
		id := create(t, sv.mg, CreateRequest{})
		score(t, sv.mg, id, text[:6*testChunk])
		k.left = killed
		_, err := feed(sv, id, text[6*testChunk:], 6*testChunk)
		done = err == nil
		k.left = 0
		sv.told()
		sv.stop()

		sv.wrap = nil
		sv.start()
		kept, err := sv.store.Snapshots(background, id)
		require.NoError(t, err)
		require.LessOrEqual(t, len(kept), 5)
		requireClean(t, sv, 1)
		at := get(t, sv.mg, id).Offset
		score(t, sv.mg, id, text[at:])
		requireText(t, sv, id, text)
		score(t, sv.mg, id, logText(2*testChunk))
		kept, err = sv.store.Snapshots(background, id)
		require.NoError(t, err)
		require.Len(t, kept, 4)
		checkFolder(t, sv)
		require.Empty(t, sv.told())
		sv.stop()
	}
}

func requireClean(t *testing.T, sv *server, sessions int) {
	t.Helper()
	require.Equal(t, sessions, verifySessions(t, sv))
}

// verifySessions runs the checks of the command 'lmserve sessions check', and returns the number of
// sessions.
func verifySessions(t *testing.T, sv *server) (sessions int) {
	t.Helper()
	err := storage.Each(background, sv.store, func(s storage.Session) error {
		sessions++
		wrong := func(err error) { t.Errorf("check finds: %v", err) }
		return Verify(background, testModel(t), sv.store, s, wrong)
	})
	require.NoError(t, err)
	return sessions
}
