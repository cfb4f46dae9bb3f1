package memory

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/internal/serving/storage/folder"
)

// BenchmarkAShortScoreBesideFilesAndCompletions measures the time of a request that scores 64
// bytes, one chunk. Meanwhile other keys import or export large files, or sample long completions.
func BenchmarkAShortScoreBesideFilesAndCompletions(b *testing.B) {
	m, err := model.Default()
	require.NoError(b, err)
	store, err := folder.Open(b.TempDir(), folder.Options{})
	require.NoError(b, err)
	defer store.Close()
	mg, err := session.NewManager(m, session.Options{Store: store, MaxMemoryBytes: 1 << 30})
	require.NoError(b, err)
	defer func() { require.NoError(b, mg.Drain(context.Background())) }()
	none := func(session.Chunk) error { return nil }
	make := func(who session.Caller) string {
		info, err := mg.Create(b.Context(), who,
			session.CreateRequest{Settings: session.Settings{"chunk": 64}})
		require.NoError(b, err)
		return info.ID
	}
	greedy := session.Caller{Key: "greedy"}
	origin := make(greedy)
	text := strings.Repeat("0123456789abcdef", 256)
	_, err = mg.Score(b.Context(), greedy, origin, strings.NewReader(text), session.ScoreOptions{},
		none)
	require.NoError(b, err)
	var small bytes.Buffer
	require.NoError(b, mg.Export(b.Context(), greedy, origin, 0, &small, nil))
	file := grown(b, small.Bytes(), bytes.Repeat([]byte(text), 32<<20/len(text)), 64)
	large, err := mg.Import(b.Context(), greedy, bytes.NewReader(file), "")
	require.NoError(b, err)

	for name, work := range map[string]func(ctx context.Context){
		"nothing": func(ctx context.Context) { <-ctx.Done() },
		"4 imports": func(ctx context.Context) {
			if info, err := mg.Import(ctx, greedy, bytes.NewReader(file), ""); err == nil {
				_ = mg.Delete(greedy, info.ID)
			}
		},
		"4 exports": func(ctx context.Context) {
			_ = mg.Export(ctx, greedy, large.ID, 0,
				new(bytes.Buffer), nil)
		},
		"4 completions": func(ctx context.Context) {
			r := session.CompleteRequest{MaxTokens: 65536}
			_, _ = mg.Complete(ctx, greedy, make(greedy), r,
				func(session.Piece) error { return nil })
		},
	} {
		b.Run(name, func(b *testing.B) {
			ctx, stop := context.WithCancel(b.Context())
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() {
					for ctx.Err() == nil {
						work(ctx)
					}
				})
			}
			who := session.Caller{Key: "short"}
			id := make(who)
			var waits []time.Duration
			for b.Loop() {
				begun := time.Now()
				_, err := mg.Score(b.Context(), who, id, strings.NewReader(text[:64]),
					session.ScoreOptions{}, none)
				require.NoError(b, err)
				waits = append(waits, time.Since(begun))
				time.Sleep(5 * time.Millisecond)
			}
			stop()
			all.Wait()
			slices.Sort(waits)
			for _, share := range []float64{.5, .99} {
				wait := waits[int(share*float64(len(waits)-1))]
				b.ReportMetric(float64(wait)/float64(time.Millisecond), fmt.Sprintf("p%.0f-ms",
					100*share))
			}
		})
	}
}
