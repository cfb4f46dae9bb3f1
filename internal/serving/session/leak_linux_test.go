package session

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestNoDescriptorIsLeftBehind(t *testing.T) {
	count := func() int {
		names, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		return len(names)
	}
	dir, before := t.TempDir(), 0
	for n := range 3 {
		sv := newServer(t, dir, Options{ReplayMax: time.Hour})
		id := create(t, sv.mg, CreateRequest{History: HistoryTail})
		for range 3 {
			score(t, sv.mg, id, logText(testChunk+1))
			sv.keep(id)
			sv.evict(id)
		}
		info, err := sv.mg.Fork(background, Caller{}, id, ForkRequest{})
		require.NoError(t, err)
		export(t, sv.mg, info.ID)
		require.NoError(t, sv.mg.Delete(Caller{}, id))
		sv.stop()
		if n == 0 { // In the first round, the runtime also opens descriptors.
			before = count()
		}
	}
	require.Equal(t, before, count())
}
