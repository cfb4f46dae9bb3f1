package session

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestShortRequestDoesNotWaitForLongUpload(t *testing.T) {
	mg := newManager(t, Options{Threads: 1})
	long, short := create(t, mg, CreateRequest{}), create(t, mg, CreateRequest{})
	ctx, stop := context.WithCancel(context.Background())
	var uploaded atomic.Int64
	done := make(chan error, 1)
	go func() {
		_, err := mg.Score(ctx, Caller{}, long, endless{}, ScoreOptions{},
			func(Chunk) error { uploaded.Add(1); return nil })
		done <- err
	}()
	soon(t, "the upload is under way", func() bool { return uploaded.Load() > 2 })
	chunks, _ := score(t, mg, short, logText(4*testChunk))
	require.Len(t, chunks, 4)
	_, err := mg.Complete(context.Background(), Caller{}, short,
		CompleteRequest{MaxTokens: 3 * testChunk}, noPieces)
	require.NoError(t, err)
	seen := uploaded.Load()
	soon(t, "the upload goes on", func() bool { return uploaded.Load() > seen })
	stop()
	require.ErrorIs(t, <-done, context.Canceled)
}

func TestStalledClientHoldsNoWorker(t *testing.T) {
	mg := newManager(t, Options{Threads: 1})
	stalled, other := create(t, mg, CreateRequest{}), create(t, mg, CreateRequest{})
	text := logText(3 * testChunk)
	reached, resume := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		_, err := mg.Score(context.Background(), Caller{}, stalled, strings.NewReader(text),
			ScoreOptions{}, func(c Chunk) error {
				if c.Step == 1 {
					close(reached)
					<-resume
				}
				return nil
			})
		done <- err
	}()
	<-reached
	score(t, mg, other, text)
	require.Equal(t, int64(2*testChunk), get(t, mg, stalled).Offset,
		"what it was told of is accepted")
	require.Equal(t, testChunk, get(t, mg, stalled).Pending, "and its update has to wait")
	close(resume)
	require.NoError(t, <-done)
	require.Equal(t, hash(t, mg, other), hash(t, mg, stalled), "with the same seed and text")
}

func TestStalledCompletionHoldsNoWorker(t *testing.T) {
	mg := newManager(t, Options{Threads: 1})
	stalled, other := create(t, mg, CreateRequest{}), create(t, mg, CreateRequest{})
	reached, resume := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		first := true
		_, err := mg.Complete(context.Background(), Caller{}, stalled,
			CompleteRequest{MaxTokens: 2 * (pieceQueue + testChunk)}, func(Piece) error {
				if first {
					close(reached)
					<-resume
				}
				first = false
				return nil
			})
		done <- err
	}()
	<-reached
	score(t, mg, other, logText(3*testChunk))
	close(resume)
	require.NoError(t, <-done)
}
