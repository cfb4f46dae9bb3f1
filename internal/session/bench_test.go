package session

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/stream"
)

// BenchmarkScore feeds a stream without a session, one session, and eight at once: what sessions and their scheduling cost is the difference.
func BenchmarkScore(b *testing.B) {
	text := logText(64 * testChunk)
	b.Run("no session", func(b *testing.B) {
		m := testModel(b)
		w := stream.NewWorker(m, 1)
		defer w.Close()
		s := stream.New(m, stream.Defaults(m))
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			w.Feed(s, []byte(text), nil)
		}
	})
	for name, sessions := range map[string]int{"1 session": 1, "8 sessions": 8} {
		b.Run(name, func(b *testing.B) {
			mg := newManager(b, Options{})
			ids := make([]string, sessions)
			for i := range ids {
				ids[i] = create(b, mg, CreateRequest{})
			}
			b.SetBytes(int64(sessions * len(text)))
			for b.Loop() {
				var wait sync.WaitGroup
				for _, id := range ids {
					wait.Go(func() {
						_, err := mg.Score(context.Background(), Caller{}, id, strings.NewReader(text), ScoreOptions{}, func(Chunk) error { return nil })
						require.NoError(b, err)
					})
				}
				wait.Wait()
			}
		})
	}
}
