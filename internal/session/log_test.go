package session

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestAReplayedLogArrivesAtTheSameState(t *testing.T) {
	mg := newManager(t, Options{})
	rapid.Check(t, func(t *rapid.T) {
		r := drawRequest(t)
		id := create(t, mg, r)
		for _, call := range cut(t, logText(rapid.IntRange(0, 120).Draw(t, "bytes")), 50) {
			scoreBody(t, mg, id, (*reads)(ptr(cut(t, call, 30))))
		}
		_, err := mg.Complete(context.Background(), Caller{}, id, CompleteRequest{Prompt: []byte("committed"), MaxTokens: 9, Commit: CommitAll}, noPieces)
		require.NoError(t, err)

		replayed := create(t, mg, r)
		var log Log
		withSession(t, mg, id, func(s *session) { log = s.log })
		scoreBody(t, mg, replayed, io.NewSectionReader(log, 0, log.Size()))
		require.Equal(t, hash(t, mg, id), hash(t, mg, replayed))
		was, is := get(t, mg, id), get(t, mg, replayed)
		require.Equal(t, was.Bits, is.Bits)
		was.ID, was.Created, was.LastUsed = is.ID, is.Created, is.LastUsed
		require.Equal(t, was, is)
		require.NoError(t, mg.Delete(Caller{}, id))
		require.NoError(t, mg.Delete(Caller{}, replayed))
	})
}

func TestMemoryLogHoldsWhatWasAppended(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newMemoryLog()
		var want []byte
		for range rapid.IntRange(1, 20).Draw(t, "appends") {
			n := rapid.SampledFrom([]int{0, 1, 100, logBlockBytes - 1, logBlockBytes, logBlockBytes + 1, 3 * logBlockBytes}).Draw(t, "bytes")
			text := bytes.Repeat([]byte{byte(len(want)), byte(n), 7}, n/3+1)[:n]
			require.NoError(t, l.Append(text))
			want = append(want, text...)
			require.Equal(t, int64(len(want)), l.Size())
		}
		got, err := io.ReadAll(io.NewSectionReader(l, 0, l.Size()))
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got))
		off := rapid.Int64Range(0, l.Size()+10).Draw(t, "offset")
		p := make([]byte, rapid.IntRange(0, 2*logBlockBytes).Draw(t, "length"))
		n, err := l.ReadAt(p, off)
		wantN, wantErr := bytes.NewReader(want).ReadAt(p[:len(p):len(p)], off)
		require.Equal(t, wantN, n)
		if len(p) > 0 {
			require.Equal(t, wantErr, err)
		}
	})
	_, err := newMemoryLog().ReadAt(nil, -1)
	require.Error(t, err)
}

func TestMemoryLogIsReadWhileItGrows(t *testing.T) {
	l := newMemoryLog()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 3000 {
			_ = l.Append([]byte("twelve bytes"))
		}
	}()
	for l.Size() < 12 {
	}
	for range 100 {
		p := make([]byte, 12)
		n, err := l.ReadAt(p, l.Size()/12*12-12)
		require.NoError(t, err)
		require.Equal(t, "twelve bytes", string(p[:n]))
	}
	<-done
}

// brokenLog fails when it is told to.
type brokenLog struct {
	Log
	err error
}

func (l *brokenLog) Append(text []byte) error {
	if l.err != nil {
		return l.err
	}
	return l.Log.Append(text)
}

func TestWhatTheLogDoesNotTakeNeverHappened(t *testing.T) {
	mg := newManager(t, Options{})
	log := &brokenLog{Log: newMemoryLog()}
	mg.newLog = func() Log { return log }
	id := create(t, mg, CreateRequest{})
	text := logText(3 * testChunk)
	score(t, mg, id, text[:testChunk+5])
	before, info := hash(t, mg, id), get(t, mg, id)
	log.err = errors.New("disk full")
	sum, err := mg.Score(context.Background(), Caller{}, id, strings.NewReader("this will not be"), ScoreOptions{}, func(Chunk) error {
		require.Fail(t, "reported")
		return nil
	})
	require.ErrorIs(t, err, log.err)
	require.Equal(t, Summary{Offset: info.Offset, Updates: 1, TotalBytes: info.Offset, TotalChars: info.Chars, TotalTokens: info.Tokens,
		TotalBits: info.Bits, Elapsed: sum.Elapsed}, sum)
	require.Equal(t, before, hash(t, mg, id))
	after := get(t, mg, id)
	after.LastUsed = info.LastUsed
	require.Equal(t, info, after)

	log.err = nil
	score(t, mg, id, text[testChunk+5:])
	want, _ := alone(t, mg.model, CreateRequest{Seed: ptr(uint64(3))}, text)
	require.Equal(t, want.Hash(), hash(t, mg, id), "and it goes on")
}
