package storetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/serving/storage"
)

func origin(t *testing.T, s storage.Store) (epoch uint64) {
	epoch = create(t, s, "a")
	require.NoError(t, s.Append(background, "a", epoch, 0, record("abc"), record("def"),
		record("ghi")))
	require.NoError(t, s.WriteSnapshot(background, "a", epoch, 6, writer("state at 6")))
	require.NoError(t, s.WriteSnapshot(background, "a", epoch, 9, writer("state at 9")))
	return epoch
}

func forked(t *testing.T, b Backend) {
	s := started(t, b)
	first := origin(t, s)
	for _, fork := range []struct {
		id   string
		cut  storage.Cut
		kept []int64
		text string
		last *storage.Record

		lastAt int64
	}{
		{"all", storage.Cut{Start: 0, End: 9}, []int64{6, 9}, "abcdefghi", last(record("ghi")), 6},
		{"tail", storage.Cut{Start: 3, End: 6}, []int64{6}, "def", last(record("def")), 3},
		{"empty", storage.Cut{Start: 6, End: 6}, []int64{6}, "", nil, 0},
		{"no-snapshot", storage.Cut{Start: 0, End: 3}, nil, "abc", last(record("abc")), 0},
	} {
		epoch, err := s.Fork(background, "a", fork.id, []byte("head"), fork.cut)
		require.NoError(t, err)
		require.Greater(t, epoch, first)
		got, err := s.Get(background, fork.id)
		require.NoError(t, err)
		require.Equal(t, storage.Session{
			ID: fork.id, Epoch: epoch, Head: []byte("head"), Start: fork.cut.Start,
			End: fork.cut.End, Last: fork.last,
			LastAt: fork.lastAt,
		}, got)
		require.Equal(t, fork.text, text(t, s, fork.id, fork.cut.Start))
		require.Equal(t, fork.kept, offsets(t, s, fork.id))
		for _, at := range fork.kept {
			require.Equal(t, snapshot(t, s, "a", at), snapshot(t, s, fork.id, at))
		}
		require.NoError(t, s.Append(background, fork.id, epoch, fork.cut.End, record("on")))
		require.Equal(t, fork.text+"on", text(t, s, fork.id, fork.cut.Start))
	}
	require.Equal(t, "abcdefghi", text(t, s, "a", 0))
}

func forksRefused(t *testing.T, b Backend) {
	s := started(t, b)
	origin(t, s)
	create(t, s, "b")
	for _, refused := range []struct {
		from, id string
		cut      storage.Cut
		want     error
	}{
		{"nobody", "c", storage.Cut{}, storage.ErrNotFound},
		{"a", "b", storage.Cut{}, storage.ErrExists},
		{"a", "a", storage.Cut{}, storage.ErrExists},
		{"a", "A", storage.Cut{}, storage.ErrInvalid},
		{"a", "c", storage.Cut{Start: -1, End: 3}, storage.ErrInvalid},
		{"a", "c", storage.Cut{Start: 6, End: 3}, storage.ErrInvalid},
		{"a", "c", storage.Cut{Start: 0, End: 12}, storage.ErrRange},
		{"a", "c", storage.Cut{Start: 0, End: 4}, storage.ErrInvalid},
		{"a", "c", storage.Cut{Start: 2, End: 3}, storage.ErrInvalid},
	} {
		_, err := s.Fork(background, refused.from, refused.id, nil, refused.cut)
		require.ErrorIs(t, err, refused.want, "%+v", refused)
	}
	listed, err := s.List(background, "", 10)
	require.NoError(t, err)
	require.Len(t, listed, 2)
}

func forksApart(t *testing.T, b Backend) {
	s := started(t, b)
	first := origin(t, s)
	fork := func(from, id string, end int64) uint64 {
		epoch, err := s.Fork(background, from, id, nil, storage.Cut{End: end})
		require.NoError(t, err)
		return epoch
	}
	child := fork("a", "child", 9)
	require.NoError(t, s.Append(background, "a", first, 9, record(" and a")))
	require.NoError(t, s.Append(background, "child", child, 9, record(" and its child")))
	require.NoError(t, s.WriteSnapshot(background, "child", child, 23, writer("state at 23")))
	grandchild := fork("child", "grandchild", 23)
	require.NoError(t, s.Trim(background, "a", first, 9))
	require.NoError(t, s.DropSnapshot(background, "a", first, 9))
	require.Equal(t, "abcdefghi and its child", text(t, s, "child", 0))
	require.Equal(t, "state at 9", snapshot(t, s, "child", 9))
	require.NoError(t, s.Delete(background, "child", child))
	require.NoError(t, s.Delete(background, "a", first))
	require.Equal(t, "abcdefghi and its child", text(t, s, "grandchild", 0))
	require.Equal(t, "state at 23", snapshot(t, s, "grandchild", 23))
	require.NoError(t, s.Append(background, "grandchild", grandchild, 23, record(", who is alone")))
	require.NoError(t, s.Trim(background, "grandchild", grandchild, 23))
	require.Equal(t, ", who is alone", text(t, s, "grandchild", 23))
	require.NoError(t, s.Delete(background, "grandchild", grandchild))
	// Deleted sessions leave no data, so their ids can be used again.
	for _, id := range []string{"a", "child", "grandchild"} {
		create(t, s, id)
	}
}
