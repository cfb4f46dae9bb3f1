package sessionlog

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// The values of lmserve.db beside records (FuzzRecord), with checksums that fit, or hardly one would get past them. Seeds are in testdata.

func FuzzEntry(f *testing.F) {
	f.Fuzz(func(t *testing.T, id, body []byte) {
		value := seal(sessionBucket, id, bytes.Clone(body))
		e, err := decodeEntry(id, value)
		if err != nil {
			return
		}
		require.Equal(t, value, encodeEntry(string(id), e), "one session, one encoding")
		require.GreaterOrEqual(t, e.start, int64(0))
		_, err = decodeEntry(append([]byte("x"), id...), value)
		require.Error(t, err, "under another id it is not that session")
	})
}

func FuzzSnapshotEntry(f *testing.F) {
	f.Fuzz(func(t *testing.T, key, body []byte) {
		value := seal(snapshotBucket, key, bytes.Clone(body))
		id, at, err := splitKey(key)
		if err != nil {
			return
		}
		require.NoError(t, checkID(id))
		require.NoError(t, checkOffset(at))
		require.Equal(t, key, offsetKey(id, at), "one key, one encoding")
		s, err := decodeSnapshot(key, value, at)
		if err != nil {
			return
		}
		require.Equal(t, at, s.Offset)
		require.GreaterOrEqual(t, s.Bytes, int64(0))
		require.Equal(t, value, encodeSnapshot(key, &s))
		_, err = decodeSnapshot(offsetKey(id, at^1), value, at^1)
		require.Error(t, err, "at another offset it is not that snapshot")
	})
}

func FuzzEpoch(f *testing.F) {
	f.Fuzz(func(t *testing.T, body []byte) {
		value := seal(storeBucket, []byte(epochKey), bytes.Clone(body))
		if epoch, err := decodeEpoch(value); err == nil {
			require.Equal(t, value, encodeEpoch(epoch))
		}
	})
}

func FuzzShare(f *testing.F) {
	for _, row := range []share{
		{owner: "a", child: "b", extent: extent{3, 9}}, {"a", "b", true, extent{9, 9}},
	} {
		key, value := encodeShare(&row)
		f.Add(key, value[:len(value)-crcBytes])
	}
	f.Fuzz(func(t *testing.T, key, body []byte) {
		value := seal(shareBucket, key, bytes.Clone(body))
		row, err := decodeShare(key, value)
		if err != nil {
			return
		}
		again, encoded := encodeShare(&row)
		require.Equal(t, key, again, "one share, one key")
		require.Equal(t, value, encoded)
		_, err = decodeShare(append([]byte("x"), key...), value)
		require.Error(t, err, "of another session it is not that share")
	})
}
