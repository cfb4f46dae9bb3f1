package middleware

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/keys"
)

func TestAMeterHoldsAKeyToItsRequestsAndBytes(t *testing.T) {
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
