package client_test

import (
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api/client"
	"github.com/lmserve/lmserve/internal/serving/session"
)

// A watcher receives events for all text that other clients feed to a session. The watcher gets an
// error when the session is deleted.
func TestWatch(t *testing.T) {
	r, ctx := newRig(t, session.Options{}), context.Background()
	made, err := r.CreateSession(ctx, client.SessionRequest{})
	require.NoError(t, err)
	text := requests(10)
	feed := make(chan struct{})
	fed := make(chan error, 1)
	go func() {
		<-feed
		_, err := r.ScoreText(ctx, made.ID, []byte(text), client.ScoreOptions{})
		fed <- err
	}()
	o := client.WatchOptions{LogProbs: true, Top: 2, Updates: true, Offset: new(int64(0))}
	var got []byte
	updates, last := 0, error(nil)
	for e, err := range r.Watch(ctx, made.ID, o) {
		switch {
		case err != nil:
			last = err
		case e.Start != nil:
			close(feed)
		case e.Chunk != nil:
			require.Len(t, e.Chunk.TopLogprobs, int(e.Chunk.Tokens))
			if got = append(got, e.Chunk.TextBytes()...); len(got) == len(text) {
				require.NoError(t, <-fed)
				require.NoError(t, r.DeleteSession(ctx, made.ID))
			}
		case e.Update != nil:
			updates++
			require.NotEmpty(t, e.Update.Branches)
		}
	}
	require.Equal(t, text, string(got))
	require.Positive(t, updates)
	var problem *client.Error
	require.ErrorAs(t, last, &problem)
	require.Equal(t, client.ProblemSessionNotFound, problem.Type)
	require.NotErrorIs(t, last, io.ErrUnexpectedEOF)
}
