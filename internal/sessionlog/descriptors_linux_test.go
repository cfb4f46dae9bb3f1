package sessionlog

import (
	"io"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// withoutDescriptors takes from the process the right to open anything more, until restore is called.
func withoutDescriptors(t *testing.T) (restore func()) {
	t.Helper()
	var before syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before))
	now := before
	now.Cur = 0
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &now))
	restore = func() { require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before)) }
	t.Cleanup(restore)
	return restore
}

// A store that gets no descriptor waits for one, then refuses, and has not failed.
func TestTheWantOfADescriptorIsNoFailure(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	f, err := Open(t.TempDir(), Options{})
	require.NoError(t, err)
	defer f.Close()
	epochs := map[string]uint64{}
	for _, id := range []string{"a", "b", "c"} {
		epochs[id], err = f.Create(background, id, []byte("{}"), 0)
		require.NoError(t, err)
		require.NoError(t, f.Append(background, id, epochs[id], 0, Record{Text: []byte("text")}))
	}
	write := func(w io.Writer) error { _, err := w.Write([]byte("state")); return err }

	restore := withoutDescriptors(t)
	time.AfterFunc(descriptorPatience/10, restore)
	require.NoError(t, f.Delete(background, "a", epochs["a"]), "it was waited for")

	restore = withoutDescriptors(t)
	require.NoError(t, f.Append(background, "b", epochs["b"], 4, Record{Text: []byte("more")}))
	require.ErrorIs(t, f.WriteSnapshot(background, "b", epochs["b"], 8, write), ErrUnavailable)
	require.ErrorIs(t, f.Delete(background, "c", epochs["c"]), ErrUnavailable)
	require.NoError(t, f.Err())
	restore()
	require.NoError(t, f.WriteSnapshot(background, "b", epochs["b"], 8, write))
	_, err = f.Get(background, "c")
	require.ErrorIs(t, err, ErrNotFound, "it was deleted; what is left of it goes with the next")
	require.NoError(t, f.Delete(background, "b", epochs["b"]))
}
