package postgres

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Whatever the clock of the database says, a lease that was seen lapses without a renewal: when the
// observer's clock has counted the lease's whole length.
func TestSeenLeaseEndsByOwnClock(t *testing.T) {
	now := time.Unix(1e9, 0)
	s := &sightings{now: func() time.Time { return now }}
	const lease = 10 * time.Second
	until := now.Add(lease)
	require.False(t, s.over("a", until, lease, false))
	require.False(t, s.over("a", until, lease, true), "the clock of the database was set")
	now = now.Add(9 * time.Second)
	require.False(t, s.over("a", until, lease, true))
	until = until.Add(-time.Hour) // a renewal, after the clock was set back
	require.False(t, s.over("a", until, lease, true))
	now = now.Add(9 * time.Second)
	require.False(t, s.over("a", until, lease, true))
	now = now.Add(time.Second)
	require.True(t, s.over("a", until, lease, false), "it was not renewed")

	require.True(t, s.over("b", until, lease, true), "it was over before it was seen")
	until = until.Add(time.Second)
	require.False(t, s.over("b", until, lease, true), "it was renewed")
	s.forget(func(id string) bool { return id == "a" })
	require.True(t, s.over("b", until, lease, true))
}
