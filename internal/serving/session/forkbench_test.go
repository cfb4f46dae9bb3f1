package session

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/serving/storage"
	"github.com/lmserve/lmserve/internal/serving/storage/folder"
)

// longSession makes a session with text and a snapshot of the given sizes. The content of the
// snapshot is random, because the benchmark does not read it.
func longSession(b *testing.B, sv *server, textBytes, snapshotBytes int) (id string) {
	id = create(b, sv.mg, CreateRequest{Settings: Settings{"method": MethodStatic}})
	found, err := sv.store.Claim(background, id)
	require.NoError(b, err)
	text := []byte(logText(128))
	for at := 0; at < textBytes; {
		var records []storage.Record
		begin := at
		for ; len(records) < 2000 && at < textBytes; at += len(text) {
			records = append(records, storage.Record{UnixMS: 1, Bits: float64(at), Text: text})
		}
		require.NoError(b, sv.store.Append(background, id, found.Epoch, int64(begin), records...))
	}
	state := make([]byte, snapshotBytes)
	_, _ = rand.Read(state)
	at := int64(textBytes) / int64(len(text)) * int64(len(text))
	require.NoError(b, sv.store.WriteSnapshot(background, id, found.Epoch, at,
		func(w io.Writer) error {
			_, err := io.Copy(w, bytes.NewReader(state))
			return err
		}))
	sv.restart()
	return id
}

func folderBytes(b *testing.B, dir string) (n int64) {
	require.NoError(b, filepath.WalkDir(dir, func(_ string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			info, errInfo := e.Info()
			n, err = n+info.Size(), errInfo
		}
		return err
	}))
	return n
}

func heapBytes() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapInuse)
}

// together calls parameter `do` for all ids, from deletesAtOnce goroutines.
func together(ids []string, do func(id string)) {
	next := make(chan string)
	var wait sync.WaitGroup
	for range deletesAtOnce {
		wait.Go(func() {
			for id := range next {
				do(id)
			}
		})
	}
	for _, id := range ids {
		next <- id
	}
	close(next)
	wait.Wait()
}

// BenchmarkForks makes 10,000 forks of a session of 10 MB, then opens and deletes them. Results are
// in docs/history/operations.md.
func BenchmarkForks(b *testing.B) {
	const forks, textBytes, snapshotBytes = 10_000, 10_485_760, 4 << 20
	for b.Loop() {
		sv := newServer(b, b.TempDir(), Options{})
		id := longSession(b, sv, textBytes, snapshotBytes)
		before, heap := folderBytes(b, sv.dir), heapBytes()
		timed := func(name string, calls int, do func()) {
			begun := time.Now()
			do()
			b.ReportMetric(float64(time.Since(begun).Microseconds())/1000/float64(calls), name)
		}
		ids := make([]string, forks)
		timed("ms/fork", forks, func() {
			for n := range ids {
				info, err := sv.mg.Fork(context.Background(), Caller{}, id, ForkRequest{})
				require.NoError(b, err)
				ids[n] = info.ID
			}
		})
		b.ReportMetric(float64(folderBytes(b, sv.dir)-before)/forks, "disk-B/fork")
		b.ReportMetric((heapBytes()-heap)/forks, "heap-B/fork")
		timed("ms/restart", 1, sv.restart)
		timed("ms/list-of-1000", 1, func() {
			_, _, err := sv.mg.List(Caller{}, "", 1000)
			require.NoError(b, err)
		})
		timed("ms/check", 1, func() {
			sv.stop()
			require.NoError(b, folder.Check(background, sv.dir,
				func(d *storage.CorruptError) { b.Error(d) }))
			sv.start()
		})
		timed("ms/delete-parent", 1, func() { require.NoError(b, sv.mg.Delete(Caller{}, id)) })
		timed("ms/delete-fork", forks, func() {
			together(ids, func(id string) {
				if err := sv.mg.Delete(Caller{}, id); err != nil {
					b.Error(err)
				}
			})
		})
		sv.stop()
	}
}
