package postgres

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// This server has seen a lease, which is then not renewed. The lease must lapse when this server's
// own clock has counted its whole length, whatever the clock of the database shows.
func TestSeenLeaseEndsByOwnClock(t *testing.T) {
	now := time.Unix(1e9, 0)
	s := &sightings{now: func() time.Time { return now }}
	const lease = 10 * time.Second
	until := now.Add(lease)
	require.False(t, s.over("a", until, lease))
	now = now.Add(9 * time.Second)
	require.False(t, s.over("a", until, lease))
	until = until.Add(-time.Hour) // a renewal, after the clock was set back
	require.False(t, s.over("a", until, lease))
	now = now.Add(9 * time.Second)
	require.False(t, s.over("a", until, lease))
	now = now.Add(time.Second)
	require.True(t, s.over("a", until, lease), "it was not renewed")

	require.False(t, s.over("b", now.Add(-time.Hour), lease), "the clock may have been set")
	now = now.Add(lease)
	ids, untils := s.unrenewed(2 * lease)
	require.Equal(t, []string{"a"}, ids)
	require.Equal(t, []time.Time{until}, untils)
	s.forget(func(id string) bool { return id == "b" })
	require.True(t, s.over("b", now.Add(-lease-time.Hour), lease))
	require.False(t, s.over("a", until, lease), "it is seen for the first time again")
}
