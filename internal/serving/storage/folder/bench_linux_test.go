package folder

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/serving/storage"
)

// BenchmarkAppend measures how many durable appends of a chunk are made per second, for one session
// and for many sessions. For comparison, the benchmark also measures the disk alone: writes of a
// page, each followed by an fdatasync.
func BenchmarkAppend(b *testing.B) {
	for _, writers := range []int{1, 8, 64, 512} {
		b.Run(fmt.Sprint("sessions=", writers), func(b *testing.B) {
			dir := b.TempDir()
			s, err := Open(filepath.Join(dir, "data"), Options{})
			require.NoError(b, err)
			defer s.Close()
			bare, err := os.Create(filepath.Join(dir, "bare"))
			require.NoError(b, err)
			defer bare.Close()
			epochs := make([]uint64, writers)
			ends := make([]int64, writers)
			for w := range writers {
				epochs[w], err = s.Create(b.Context(), fmt.Sprint("session-", w), nil, 0)
				require.NoError(b, err)
			}
			var appends, syncs int
			var appending, syncing time.Duration
			for b.Loop() {
				began := time.Now()
				appends += rush(b, s, epochs, ends, 200*time.Millisecond)
				appending += time.Since(began)
				began = time.Now()
				for time.Since(began) < 200*time.Millisecond {
					_, err := bare.WriteAt(make([]byte, 4096), int64(syncs%1000)*4096)
					require.NoError(b, err)
					require.NoError(b, syscall.Fdatasync(int(bare.Fd())))
					syncs++
				}
				syncing += time.Since(began)
			}
			perSecond := float64(appends) / appending.Seconds()
			bound := float64(syncs) / syncing.Seconds()
			b.ReportMetric(perSecond, "appends/s")
			b.ReportMetric(bound, "fdatasyncs/s")
			b.ReportMetric(perSecond/bound, "appends/fdatasync")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func rush(b *testing.B, s storage.Store, epochs []uint64, ends []int64, d time.Duration) int {
	var total atomic.Int64
	var wait sync.WaitGroup
	until := time.Now().Add(d)
	text := make([]byte, 128)
	for w := range epochs {
		wait.Go(func() {
			for time.Now().Before(until) {
				id := fmt.Sprint("session-", w)
				if err := s.Append(b.Context(), id, epochs[w], ends[w],
					storage.Record{Text: text}); err != nil {
					b.Error(err)
					return
				}
				ends[w] += int64(len(text))
				total.Add(1)
			}
		})
	}
	wait.Wait()
	return int(total.Load())
}

// BenchmarkStart measures how long it takes to open a folder of 100,000 sessions with one record
// each. It compares opening with and without the index that Close writes.
func BenchmarkStart(b *testing.B) {
	const sessions, writers = 100_000, 100
	dir := filepath.Join(b.TempDir(), "data")
	s, err := open(dir, Options{}, unsynced{})
	require.NoError(b, err)
	head := make([]byte, 400)
	var wait sync.WaitGroup
	for w := range writers {
		wait.Go(func() {
			for n := range sessions / writers {
				id := fmt.Sprintf("session-%d-%d", w, n)
				epoch, err := s.Create(b.Context(), id, head, 0)
				if err == nil {
					err = s.Append(b.Context(), id, epoch, 0,
						storage.Record{Text: make([]byte, 128)})
				}
				if err != nil {
					b.Error(err)
				}
			}
		})
	}
	wait.Wait()
	require.NoError(b, s.Close())
	for b.Loop() {
		for _, what := range []string{"ms/open-with-index", "ms/open-without"} {
			if what == "ms/open-without" {
				require.NoError(b, os.Remove(filepath.Join(dir, indexName)))
			}
			began := time.Now()
			s, err := Open(dir, Options{})
			require.NoError(b, err)
			b.ReportMetric(float64(time.Since(began).Milliseconds()), what)
			listed, err := s.List(b.Context(), "", 1<<20)
			require.NoError(b, err)
			require.Len(b, listed, sessions)
			require.NoError(b, s.Close())
		}
	}
	b.ReportMetric(0, "ns/op")
}
