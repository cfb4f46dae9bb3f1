package client_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api/client"
	"github.com/lmserve/lmserve/internal/serving/session"
)

func TestEachOperation(t *testing.T) {
	r, ctx := newRig(t, session.Options{}), context.Background()
	ready, err := r.Ready(ctx)
	require.NoError(t, err)
	require.Equal(t, client.StatusReady, ready.Status)
	models, err := r.Models(ctx)
	require.NoError(t, err)
	require.Len(t, models, 1)

	created, err := r.CreateSession(ctx, client.SessionRequest{Seed: new(uint64(3))})
	require.NoError(t, err)
	require.Equal(t, models[0].ID, created.Model)
	web, made, err := r.EnsureSession(ctx, "web",
		client.SessionRequest{Labels: &client.Labels{"host": "a"}})
	require.NoError(t, err)
	require.True(t, made)
	found, made, err := r.EnsureSession(ctx, "web", client.SessionRequest{})
	require.NoError(t, err)
	require.False(t, made)
	require.Equal(t, web.ID, found.ID)

	text := requests(10)
	var lines []client.LineEvent
	var summary *client.SummaryEvent
	o := client.ScoreOptions{Lines: true, Tokens: true}
	for e, err := range r.Score(ctx, "web", strings.NewReader(text), o) {
		require.NoError(t, err)
		if e.Line != nil {
			lines = append(lines, *e.Line)
		}
		summary = e.Summary
	}
	require.Len(t, lines, 10)
	require.Equal(t, "GET /item/0 HTTP/1.1 -> 200", string(lines[0].TextBytes()))
	require.EqualValues(t, len(text), summary.Offset)
	o = client.ScoreOptions{Offset: new(int64(0))}
	whole, err := r.ScoreText(ctx, created.ID, []byte(text), o)
	require.NoError(t, err)
	require.EqualValues(t, len(text), whole.Offset)

	part, err := r.Text(ctx, "web", 4, 7)
	require.NoError(t, err)
	require.Equal(t, text[4:11], string(part))
	past, err := r.Scores(ctx, "web", 0, 3)
	require.NoError(t, err)
	require.NotEmpty(t, past.Scores)
	require.EqualValues(t, len(text), past.Next)

	patched, err := r.PatchSession(ctx, "web", client.SessionPatch{
		Labels: map[string]*string{"host": nil, "rack": new("b")}, TTLSeconds: new(int64(60)),
	})
	require.NoError(t, err)
	require.Equal(t, client.Labels{"rack": "b"}, *patched.Labels)
	require.EqualValues(t, 60, patched.TTLSeconds)
	patched, err = r.PatchSession(ctx, "web", client.SessionPatch{Name: new("web.log")})
	require.NoError(t, err)
	require.Equal(t, "web.log", *patched.Name)
	patched, err = r.PatchSession(ctx, "web.log", client.SessionPatch{Name: new("")})
	require.NoError(t, err)
	require.Nil(t, patched.Name)
	_, err = r.PatchSession(ctx, patched.ID, client.SessionPatch{Name: new("web")})
	require.NoError(t, err)
	fork, err := r.ForkSession(ctx, "web",
		client.ForkRequest{AtOffset: new(int64(20)), Name: new("fork")})
	require.NoError(t, err)
	require.EqualValues(t, 20, fork.Offset)

	var file bytes.Buffer
	exported, err := r.ExportSession(ctx, "web", &file)
	require.NoError(t, err)
	require.Equal(t, client.Export{Bytes: int64(file.Len())}, exported)
	imported, err := r.ImportSession(ctx, &file, "copy")
	require.NoError(t, err)
	require.EqualValues(t, len(text), imported.Offset)

	request := client.CompletionRequest{
		Prompt: new("GET "), MaxTokens: new(20), Seed: new(uint64(1)), Stop: client.StopAt("\n",
			"zz"),
	}
	completion, err := r.Complete(ctx, "web", request)
	require.NoError(t, err)
	var streamed []byte
	var done *client.DoneEvent
	for e, err := range r.CompleteStream(ctx, "web", request) {
		require.NoError(t, err)
		if e.Piece != nil {
			streamed = append(streamed, e.Piece.TextBytes()...)
		}
		done = e.Done
	}
	require.Equal(t, completion.TextBytes(), streamed)
	require.Equal(t, completion.Usage, done.Usage)

	names := map[string]bool{}
	for s, err := range r.Sessions(ctx, "") {
		require.NoError(t, err)
		if s.Name != nil {
			names[*s.Name] = true
		}
	}
	require.Equal(t, map[string]bool{"web": true, "fork": true, "copy": true}, names)
	var labeled []string
	for s, err := range r.Sessions(ctx, "rack:b") {
		require.NoError(t, err)
		labeled = append(labeled, s.ID)
	}
	require.Equal(t, []string{web.ID, imported.ID}, labeled)
	require.NoError(t, r.DeleteSession(ctx, "fork"))
	_, err = r.GetSession(ctx, "fork")
	require.True(t, client.Is(err, client.ProblemSessionNotFound), err)
}

func TestFeed(t *testing.T) {
	r, ctx := newRig(t, session.Options{}), context.Background()
	for name, o := range map[string]client.ScoreOptions{"lines": {Lines: true}, "chunks": {}} {
		_, _, err := r.EnsureSession(ctx, name, client.SessionRequest{})
		require.NoError(t, err)
		text, at := requests(40)+"the rest", int64(0)
		offset, err := r.Feed(ctx, name, strings.NewReader(text), client.FeedOptions{
			Score: o, BatchBytes: 100,
			Event: func(e client.Event) error {
				if e.Line != nil {
					require.Equal(t, at, e.Line.Offset)
					at += e.Line.Bytes
				} else {
					require.Equal(t, at, e.Chunk.Offset)
					at += e.Chunk.Bytes
				}
				return nil
			},
		})
		require.NoError(t, err)
		require.EqualValues(t, len(text), offset)
		require.EqualValues(t, len(text), at)
	}
}
