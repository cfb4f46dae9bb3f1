package middleware

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/serving/keys"
)

func TestMeterLimitsRequestsAndBytesOfKey(t *testing.T) {
	all := &meters{byKey: map[string]*meter{}}
	small := keys.Limits{Sessions: 1, Requests: 2, BytesPerSecond: 100}
	m := all.of("key", small)
	require.Same(t, m, all.of("key", small), "the requests of a key share a meter")
	require.NotSame(t, m, all.of("other", small))

	require.True(t, m.begin())
	require.True(t, m.begin())
	require.False(t, m.begin())
	m.end()
	require.True(t, m.begin())

	now := time.Now()
	require.Zero(t, m.charge(100, now), "a second's worth is free")
	require.Equal(t, 10*time.Second, m.charge(1000, now).Round(time.Millisecond))
	require.Equal(t, 10*time.Second, m.behind(now).Round(time.Millisecond))
	require.Equal(t, 4*time.Second, m.behind(now.Add(6*time.Second)).Round(time.Millisecond))

	large := small
	large.BytesPerSecond = 1000
	changed := all.of("key", large)
	require.NotSame(t, m, changed)
	require.Zero(t, changed.behind(now), "new limits begin without debt")
	m.end()
}

func TestLimitsThatAKeyLeavesOutHaveDefaults(t *testing.T) {
	given := keys.Limits{Sessions: 1, Requests: 2, BytesPerSecond: 3, Disk: 4}
	require.Equal(t, given, withDefaultLimits(given))
	all := withDefaultLimits(keys.Limits{})
	require.Positive(t, all.Sessions)
	require.Positive(t, all.Requests)
	require.Positive(t, all.BytesPerSecond)
	require.Positive(t, all.Disk)
}

// A body may wait for minutes if other requests have used up the key's rate. The server notices
// during this wait that the client has left.
func TestLeavingABodyThatIsPacedIsNoticed(t *testing.T) {
	m := (&meters{byKey: map[string]*meter{}}).of("key", keys.Limits{BytesPerSecond: 100})
	m.charge(10_000, time.Now())
	ended := make(chan error, 1)
	addr := serveStalled(t, time.Minute, t.Context(), func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(&pacedBody{r.Body, r.Context(), t.Context(), m})
		ended <- err
	})
	conn := begin(t, addr, 1000)
	_, err := io.WriteString(conn, "some of it")
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	select {
	case err := <-ended:
		require.ErrorIs(t, err, context.Canceled)
	case <-time.After(30 * time.Second):
		t.Fatal("the client has left, and its request is under way")
	}
}
