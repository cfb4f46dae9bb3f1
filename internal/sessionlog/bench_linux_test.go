package sessionlog

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
)

// BenchmarkAppend measures durable appends of a chunk a second, of one session and of 64 at once, against what the disk allows: writes of a page with
// an fdatasync after each, in turns with them. A commit has two of those.
func BenchmarkAppend(b *testing.B) {
	for _, writers := range []int{1, 64} {
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
					_, err := bare.WriteAt(make([]byte, pageBytes), int64(syncs%1000)*pageBytes)
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

// rush lets every session append until the time is over, and counts.
func rush(b *testing.B, s Store, epochs []uint64, ends []int64, d time.Duration) int {
	var total atomic.Int64
	var wait sync.WaitGroup
	until := time.Now().Add(d)
	text := make([]byte, 128)
	for w := range epochs {
		wait.Go(func() {
			for time.Now().Before(until) {
				if err := s.Append(b.Context(), fmt.Sprint("session-", w), epochs[w], ends[w], Record{Text: text}); err != nil {
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

// BenchmarkStart opens a folder of 10,000 sessions of 100 records each, lists them all, deletes one, and checks the folder.
func BenchmarkStart(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "data")
	s, err := Open(dir, Options{})
	require.NoError(b, err)
	records := make([]Record, 100)
	for n := range records {
		records[n] = Record{Text: make([]byte, 128)}
	}
	head := make([]byte, 400)
	var wait sync.WaitGroup
	for w := range 100 {
		wait.Go(func() {
			for n := range 100 {
				id := fmt.Sprintf("session-%d-%d", w, n)
				epoch, err := s.Create(b.Context(), id, head, 0)
				if err == nil {
					err = s.Append(b.Context(), id, epoch, 0, records...)
				}
				if err != nil {
					b.Error(err)
				}
			}
		})
	}
	wait.Wait()
	require.NoError(b, s.Close())
	info, err := os.Stat(filepath.Join(dir, databaseName))
	require.NoError(b, err)
	var opening, listing, deleting, checking time.Duration
	for n := 0; b.Loop(); n++ {
		began := time.Now()
		s, err := Open(dir, Options{})
		require.NoError(b, err)
		opening += time.Since(began)
		began = time.Now()
		listed, err := s.List(b.Context(), "", 1<<20)
		require.NoError(b, err)
		require.Len(b, listed, 10_000-n)
		listing += time.Since(began)
		began = time.Now()
		require.NoError(b, s.Delete(b.Context(), listed[n*37].ID, 0))
		deleting += time.Since(began)
		require.NoError(b, s.Close())
		began = time.Now()
		require.NoError(b, Check(b.Context(), dir, func(d *CorruptError) { b.Error(d) }))
		checking += time.Since(began)
	}
	n := float64(b.N)
	b.ReportMetric(opening.Seconds()*1e3/n, "ms/open")
	b.ReportMetric(listing.Seconds()*1e3/n, "ms/list")
	b.ReportMetric(deleting.Seconds()*1e3/n, "ms/delete")
	b.ReportMetric(checking.Seconds()*1e3/n, "ms/check")
	b.ReportMetric(float64(info.Size())/(1<<20), "MiB")
	b.ReportMetric(0, "ns/op")
}
