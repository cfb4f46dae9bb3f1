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

func TestFailedAppendChangesNothing(t *testing.T) {
	var broken error
	mg := newManager(t, Options{Store: &appending{
		storage.NewMemory(), func(string, int64) error { return broken },
	}})
	id := create(t, mg, CreateRequest{})
	text := logText(3 * testChunk)
	score(t, mg, id, text[:testChunk+5])
	before, info := hash(t, mg, id), get(t, mg, id)
	broken = errors.New("disk full")
	sum, err := mg.Score(context.Background(), Caller{}, id, strings.NewReader("this will not be"),
		ScoreOptions{}, func(Chunk) error {
			require.Fail(t, "reported")
			return nil
		})
	require.ErrorIs(t, err, broken)
	require.Equal(t, Summary{
		Offset: info.Offset, Updates: 1, Total: info.Tally, NetworkBits: new(float64),
		Elapsed: sum.Elapsed,
	}, sum)
	require.Equal(t, before, hash(t, mg, id))
	after := get(t, mg, id)
	after.LastUsed = info.LastUsed
	require.Equal(t, info, after)

	broken = nil
	score(t, mg, id, text[testChunk+5:])
	requireFed(t, mg, id, text, "later text is learned")
}
