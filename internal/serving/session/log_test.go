package session

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lmserve/lmserve/internal/serving/storage"
)

func TestReplayedLogArrivesAtSameState(t *testing.T) {
	mg := newManager(t, Options{})
	rapid.Check(t, func(t *rapid.T) {
		r := drawRequest(t)
		id := create(t, mg, r)
		for _, call := range cut(t, logText(rapid.IntRange(0, 120).Draw(t, "bytes")), 50) {
			scoreBody(t, mg, id, (*reads)(ptr(cut(t, call, 30))))
		}
		_, err := mg.Complete(context.Background(), Caller{}, id,
			CompleteRequest{Prompt: []byte("committed"), MaxTokens: 9, Commit: CommitAll}, noPieces)
		require.NoError(t, err)

		replayed := create(t, mg, r)
		score(t, mg, replayed, logged(t, mg, id))
		require.Equal(t, hash(t, mg, id), hash(t, mg, replayed))
		was, is := get(t, mg, id), get(t, mg, replayed)
		require.Equal(t, was.Bits, is.Bits)
		// memory depends on the number of records, which may differ
		was.ID, was.Created, was.LastUsed, was.MemoryBytes = is.ID, is.Created, is.LastUsed,
			is.MemoryBytes
		require.Equal(t, was, is)
		require.NoError(t, mg.Delete(Caller{}, id))
		require.NoError(t, mg.Delete(Caller{}, replayed))
	})
}

type brokenStore struct {
	storage.Store
	err error
}

func (b *brokenStore) Append(ctx context.Context, id string, epoch uint64, at int64,
	records ...storage.Record) error {
	if b.err != nil {
		return b.err
	}
	return b.Store.Append(ctx, id, epoch, at, records...)
}

func TestFailedAppendChangesNothing(t *testing.T) {
	store := &brokenStore{Store: storage.NewMemory()}
	mg := newManager(t, Options{Store: store})
	id := create(t, mg, CreateRequest{})
	text := logText(3 * testChunk)
	score(t, mg, id, text[:testChunk+5])
	before, info := hash(t, mg, id), get(t, mg, id)
	store.err = errors.New("disk full")
	sum, err := mg.Score(context.Background(), Caller{}, id, strings.NewReader("this will not be"),
		ScoreOptions{}, func(Chunk) error {
			require.Fail(t, "reported")
			return nil
		})
	require.ErrorIs(t, err, store.err)
	require.Equal(t, Summary{
		Offset: info.Offset, Updates: 1, Total: info.Tally, NetworkBits: new(float64),
		Elapsed: sum.Elapsed,
	}, sum)
	require.Equal(t, before, hash(t, mg, id))
	after := get(t, mg, id)
	after.LastUsed = info.LastUsed
	require.Equal(t, info, after)

	store.err = nil
	score(t, mg, id, text[testChunk+5:])
	want, _ := alone(t, mg.engine.models[0].Model, CreateRequest{Seed: ptr(uint64(3))}, text)
	require.Equal(t, want.Hash(), hash(t, mg, id), "and it goes on")
}
