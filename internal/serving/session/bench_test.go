package session

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/stream"
)

// BenchmarkScore compares a stream without a session, one session, and eight concurrent sessions.
// The difference is the cost of sessions and their scheduling.
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
						_, err := mg.Score(context.Background(), Caller{}, id,
							strings.NewReader(text), ScoreOptions{}, noChunks)
						require.NoError(b, err)
					})
				}
				wait.Wait()
			}
		})
	}
}

// BenchmarkAShortScoreBesideGreedyKeys measures how long a request with one chunk of 64 bytes
// waits. Meanwhile, other API keys have 60 uploads each in progress.
func BenchmarkAShortScoreBesideGreedyKeys(b *testing.B) {
	const uploads, chunk = 60, 64
	for _, keys := range []int{0, 1, 5, 20} {
		b.Run(fmt.Sprint(keys, " keys"), func(b *testing.B) {
			mg := newManager(b, Options{MaxQueue: 21 * uploads})
			session := func(who Caller) string {
				info, err := mg.Create(background, who,
					CreateRequest{Settings: Settings{"chunk": chunk}})
				require.NoError(b, err)
				return info.ID
			}
			ctx, stop := context.WithCancel(background)
			var all sync.WaitGroup
			for k := range keys {
				who := Caller{Key: fmt.Sprint("greedy ", k)}
				for range uploads {
					id := session(who)
					all.Go(func() {
						_, _ = mg.Score(ctx, who, id, endless{}, ScoreOptions{},
							noChunks)
					})
				}
			}
			soon(b, "all uploads are under way",
				func() bool { return mg.engine.waiting.length() >= keys*(uploads-1) })
			who := Caller{Key: "short"}
			id, text := session(who), logText(chunk)
			var waits []time.Duration
			for b.Loop() {
				begun := time.Now()
				_, err := mg.Score(background, who, id, strings.NewReader(text), ScoreOptions{},
					noChunks)
				require.NoError(b, err)
				waits = append(waits, time.Since(begun))
			}
			stop()
			all.Wait()
			slices.Sort(waits)
			at := func(share float64) float64 {
				return float64(waits[int(share*float64(len(waits)-1))]) / float64(time.Millisecond)
			}
			b.ReportMetric(at(.5), "p50-ms")
			b.ReportMetric(at(.99), "p99-ms")
		})
	}
}
