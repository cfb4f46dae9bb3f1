package session

import (
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// These constants limit the heap memory that sessions use in addition to Options.MaxMemoryBytes.
const (
	// for each session that is not in memory: head and registry entry
	idleSessionBytes = 3 << 10
	workingBytes     = 8 << 20 // for the server: workers, copies of snapshots, the store
)

// With any number of sessions, memory stays within the budget plus idleSessionBytes per session
// plus workingBytes. If LMSERVE_TEST_LONG is set, the test uses 10,000 sessions.
func TestMemoryIsFlatAtTheBudget(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	sessions, clients := 500, 16
	if os.Getenv("LMSERVE_TEST_LONG") != "" {
		sessions, clients = 10_000, 64
	}
	// The states are large, so that the size of the heap shows how many states are in memory.
	request := CreateRequest{Seed: ptr(uint64(3)), Settings: Settings{"method": MethodCache,
		"cache_size": 4096}}
	probe := newManager(t, Options{})
	size := get(t, probe, create(t, probe, request)).MemoryBytes
	require.Greater(t, int64(sessions)*size, int64(4*workingBytes),
		"all of them at once would be seen")
	require.NoError(t, probe.Drain(background))
	text := logText(3 * testChunk)

	base := heap()
	budget := 8 * size
	sv := newServer(t, t.TempDir(), Options{MaxMemoryBytes: budget, ReplayMax: time.Hour})
	defer func() { sv.stop() }()
	ids := make([]string, sessions)
	most := int64(0)
	pass := func(do func(i int) error) {
		for from := 0; from < sessions; from += sessions / 5 {
			var wait sync.WaitGroup
			for c := range clients {
				wait.Go(func() {
					for i := from + c; i < from+sessions/5; i += clients {
						if err := do(i); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			wait.Wait()
			require.False(t, t.Failed())
			used := heap() - base
			most = max(most, used)
			require.LessOrEqual(t, used, budget+workingBytes+int64(sessions)*idleSessionBytes)
			require.LessOrEqual(t, sv.mg.index.budget.Used(), budget)
		}
	}
	feed := func(i, from, to int) error {
		_, err := sv.mg.Score(background, Caller{}, ids[i], strings.NewReader(text[from:to]),
			ScoreOptions{Offset: ptr(int64(from))}, noChunks)
		return err
	}
	pass(func(i int) error {
		info, err := sv.mg.Create(background, Caller{}, request)
		if err != nil {
			return err
		}
		ids[i] = info.ID
		return feed(i, 0, 40)
	})
	first := most
	pass(func(i int) error { return feed(i, 40, len(text)) }) // loads each session again
	require.LessOrEqual(t, most, first+workingBytes/4, "the second time round takes nothing more")
	want, _ := alone(t, sv.mg.engine.models[0].Model, request, text)
	for _, i := range []int{0, 1, sessions / 2, sessions - 1} {
		require.Equal(t, want.Hash(), hash(t, sv.mg, ids[i]))
	}
	require.Empty(t, sv.told())
	t.Logf("%d sessions with states of %d bytes: at most %d bytes on the heap, with a budget of %d",
		sessions, size, most, budget)
}

func heap() int64 {
	runtime.GC()
	runtime.GC() // frees objects whose finalizers ran in the first call
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}
