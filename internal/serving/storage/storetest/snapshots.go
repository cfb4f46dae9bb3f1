package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/serving/storage"
)

func trimmed(t *testing.T, b Backend) {
	s := started(t, b)
	epoch := create(t, s, "a")
	require.NoError(t, s.Append(background, "a", epoch, 0, record("abc"), record("def"),
		record("ghi")))
	require.ErrorIs(t, s.Trim(background, "a", epoch, 3), storage.ErrRange, "no snapshot yet")
	require.NoError(t, s.WriteSnapshot(background, "a", epoch, 5, writer("state")))
	require.ErrorIs(t, s.Trim(background, "a", epoch, 6), storage.ErrRange, "snapshot is older")
	require.ErrorIs(t, s.Trim(background, "a", epoch, -1), storage.ErrRange)
	require.NoError(t, s.Trim(background, "a", epoch, 2))
	require.Equal(t, "abcdefghi", text(t, s, "a", 0),
		"a record that goes on behind the offset stays")
	require.NoError(t, s.Trim(background, "a", epoch, 5))
	got, err := s.Get(background, "a")
	require.NoError(t, err)
	require.Equal(t, storage.Session{ID: "a", Epoch: epoch, Head: []byte("head of a"), Start: 3,
		End: 9, Last: last(record("ghi")), LastAt: 6}, got)
	require.Equal(t, "defghi", text(t, s, "a", 3))
	_, err = read(s, "a", 2)
	require.ErrorIs(t, err, storage.ErrRange)

	require.NoError(t, s.WriteSnapshot(background, "a", epoch, 9, writer("state")))
	require.NoError(t, s.Trim(background, "a", epoch, 9))
	require.Empty(t, text(t, s, "a", 9))
	require.ErrorIs(t, s.Append(background, "a", epoch, 0, record("x")), storage.ErrSequence)
	require.NoError(t, s.Append(background, "a", epoch, 9, record("on")),
		"an empty log keeps its end offset")
	require.NoError(t, s.Trim(background, "a", epoch, 3), "already")
}

func snapshotsKept(t *testing.T, b Backend) {
	s := started(t, b)
	epoch := create(t, s, "a")
	other := create(t, s, "a-")
	require.NoError(t, s.WriteSnapshot(background, "a-", other, 0, writer("other")))
	content := map[int64]string{}
	for i := range int64(5) {
		at := i * 5
		content[at] = strings.Repeat(fmt.Sprintf("state at %d;", at), 100_000)
		require.NoError(t, s.WriteSnapshot(background, "a", epoch, at, writer(content[at])))
		require.NoError(t, s.Append(background, "a", epoch, at, record("12345")))
		kept, err := s.Snapshots(background, "a")
		require.NoError(t, err)
		require.Len(t, kept, int(i)+1)
		for _, k := range kept {
			require.Positive(t, k.Bytes)
			require.NotZero(t, k.SHA256)
			require.Equal(t, content[k.Offset], snapshot(t, s, "a", k.Offset))
		}
	}
	for _, at := range []int64{10, 0, 5} {
		require.NoError(t, s.DropSnapshot(background, "a", epoch, at))
	}
	require.Equal(t, []int64{15, 20}, offsets(t, s, "a"))
	require.ErrorIs(t, s.ReadSnapshot(background, "a", 10, nil), storage.ErrNotFound)
	require.ErrorIs(t, s.ReadSnapshot(background, "b", 10, nil), storage.ErrNotFound)

	require.NoError(t, s.WriteSnapshot(background, "a", epoch, 17, writer("between")))
	require.Equal(t, []int64{15, 17, 20}, offsets(t, s, "a"))
	require.NoError(t, s.DropSnapshot(background, "a", epoch, 20))
	require.ErrorIs(t, s.DropSnapshot(background, "a", epoch, 20), storage.ErrNotFound)
	require.Equal(t, []int64{15, 17}, offsets(t, s, "a"))
	require.NoError(t, s.WriteSnapshot(background, "a", epoch, 20, writer("anew")))
	require.Equal(t, "anew", snapshot(t, s, "a", 20))
	require.Equal(t, "between", snapshot(t, s, "a", 17))
	require.Equal(t, "other", snapshot(t, s, "a-", 0))
}

func snapshotReplaced(t *testing.T, b Backend) {
	s := started(t, b)
	epoch := create(t, s, "a")
	old := make([]byte, 4<<20) // more than buffers hold
	rand.NewChaCha8([32]byte{}).Read(old)
	require.NoError(t, s.WriteSnapshot(background, "a", epoch, 0, writer(string(old))))
	var got []byte
	err := s.ReadSnapshot(background, "a", 0, func(r io.Reader) (err error) {
		require.NoError(t, s.DropSnapshot(background, "a", epoch, 0))
		require.NoError(t, s.WriteSnapshot(background, "a", epoch, 0, writer("new")))
		got, err = io.ReadAll(r)
		return err
	})
	if err == nil {
		require.True(t, bytes.Equal(old, got))
	} else {
		require.ErrorIs(t, err, storage.ErrUnavailable)
		require.NotErrorIs(t, err, storage.ErrCorrupt)
	}
	require.Equal(t, "new", snapshot(t, s, "a", 0))
}

func snapshotsRefused(t *testing.T, b Backend) {
	s := started(t, b)
	epoch := create(t, s, "a")
	require.NoError(t, s.Append(background, "a", epoch, 0, record("12345")))
	for _, at := range []int64{-1, 6} {
		require.ErrorIs(t, s.WriteSnapshot(background, "a", epoch, at, writer("x")),
			storage.ErrRange)
	}
	for _, at := range []int64{2, 4} {
		require.NoError(t, s.WriteSnapshot(background, "a", epoch, at, writer("x")))
		require.ErrorIs(t, s.WriteSnapshot(background, "a", epoch, at, writer("y")),
			storage.ErrExists)
	}
	require.Equal(t, []int64{2, 4}, offsets(t, s, "a"))
	require.Equal(t, "x", snapshot(t, s, "a", 2))
	require.ErrorIs(t, s.WriteSnapshot(background, "b", epoch, 0, writer("x")), storage.ErrNotFound)
}

func snapshotUnwritten(t *testing.T, b Backend) {
	s := started(t, b)
	epoch := create(t, s, "a")
	broken := errors.New("broken")
	require.ErrorIs(t, s.WriteSnapshot(background, "a", epoch, 0, func(w io.Writer) error {
		require.NoError(t, writer(strings.Repeat("part", 1<<20))(w))
		return broken
	}), broken)
	require.Empty(t, offsets(t, s, "a"))
	// Another server claims the session while the snapshot is written.
	require.ErrorIs(t, s.WriteSnapshot(background, "a", epoch, 0, func(w io.Writer) error {
		_, err := s.Claim(background, "a")
		return errors.Join(err, writer("late")(w))
	}), storage.ErrFenced)
	require.Empty(t, offsets(t, s, "a"))
	require.ErrorIs(t, s.ReadSnapshot(background, "a", 0, nil), storage.ErrNotFound)
}

func deleted(t *testing.T, b Backend) {
	s := started(t, b)
	epoch, other := create(t, s, "a"), create(t, s, "a0")
	for _, id := range []string{"a", "a0"} {
		e := map[string]uint64{"a": epoch, "a0": other}[id]
		require.NoError(t, s.Append(background, id, e, 0, record("text of "), record(id)))
		require.NoError(t, s.WriteSnapshot(background, id, e, 8, writer("state of "+id)))
	}
	require.NoError(t, s.Delete(background, "a", epoch))
	require.ErrorIs(t, s.Delete(background, "a", epoch), storage.ErrNotFound)
	require.ErrorIs(t, s.Delete(background, "a", 0), storage.ErrNotFound)
	_, err := s.Get(background, "a")
	require.ErrorIs(t, err, storage.ErrNotFound)
	_, err = read(s, "a", 0)
	require.ErrorIs(t, err, storage.ErrNotFound)
	_, err = s.Snapshots(background, "a")
	require.ErrorIs(t, err, storage.ErrNotFound)
	require.ErrorIs(t, s.Append(background, "a", epoch, 9, record("x")), storage.ErrNotFound)
	require.Equal(t, "text of a0", text(t, s, "a0", 0))
	require.Equal(t, "state of a0", snapshot(t, s, "a0", 8))
	create(t, s, "a")
	require.Empty(t, text(t, s, "a", 0), "nothing of the one that had the name before")
	require.Empty(t, offsets(t, s, "a"))
	require.NoError(t, s.Delete(background, "a0", 0), "epoch 0 allows every caller to delete")
}
