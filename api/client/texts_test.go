package client_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api/client"
	"github.com/lmserve/lmserve/internal/serving/session"
)

// ScoreTexts returns the same bits as feeding each text to its own session, but creates no session.
func TestScoreTextsEqualsSessions(t *testing.T) {
	r, ctx := newRig(t, session.Options{Threads: 3}), context.Background()
	texts := []string{"", "a", requests(9), "a", requests(3), strings.Repeat("é", 100)}
	set := client.SettingsRequest{Baseline: new(true)}
	o := client.TextsOptions{Seed: new(uint64(5)), Settings: &set}
	n := 0
	for got, err := range r.ScoreTexts(ctx, texts, o) {
		require.NoError(t, err)
		require.EqualValues(t, n, got.Index)
		s, err := r.CreateSession(ctx, client.SessionRequest{Seed: o.Seed, Settings: o.Settings})
		require.NoError(t, err)
		want, err := r.ScoreText(ctx, s.ID, []byte(texts[n]), client.ScoreOptions{})
		require.NoError(t, err)
		require.Equal(t, math.Float64bits(want.Bits), math.Float64bits(got.Score.Bits))
		require.Equal(t, want.BaselineBits, got.Score.BaselineBits)
		require.Equal(t, want.Totals, got.Score)
		require.Equal(t, want.Updates, got.Updates)
		n++
	}
	require.Equal(t, len(texts), n)
	require.Equal(t, n, r.mg.Stats().Sessions, "those that the test has made")
}

func TestScoreTextsEndsWithItsCaller(t *testing.T) {
	r := newRig(t, session.Options{Threads: 2})
	texts := []string{"a"}
	for range 200 {
		texts = append(texts, requests(500))
	}
	for _, err := range r.ScoreTexts(context.Background(), texts, client.TextsOptions{}) {
		require.NoError(t, err)
		break
	}
	released := func() bool { return r.mg.Stats().MemoryBytes == 0 }
	require.Eventually(t, released, time.Minute, time.Millisecond)
	for _, err := range r.ScoreTexts(context.Background(), nil, client.TextsOptions{}) {
		var refused *client.Error
		require.True(t, errors.As(err, &refused), "%v", err)
		require.Equal(t, 422, refused.Status)
	}
}
