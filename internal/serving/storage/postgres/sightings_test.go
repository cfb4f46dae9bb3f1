package postgres

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// This server has seen a lease, which is then not renewed. The lease must lapse after its duration
// by this server's own clock, whatever the clock of the database shows.
func TestSeenLeaseEndsByOwnClock(t *testing.T) {
	now := time.Unix(1e9, 0)
	s := &sightings{now: func() time.Time { return now }}
	const lease = 10 * time.Second
	over := func(id string, until time.Time) bool { return s.over(id, until, lease, now) }
	until := now.Add(lease)
	require.False(t, over("a", until))
	require.False(t, s.renews("a"))
	now = now.Add(9 * time.Second)
	require.False(t, over("a", until))
	until = until.Add(-time.Hour) // a renewal, after the clock was set back
	require.False(t, over("a", until))
	now = now.Add(9 * time.Second)
	require.False(t, over("a", until))
	require.True(t, s.renews("a"))
	now = now.Add(time.Second)
	require.False(t, s.over("a", until, lease, now.Add(-time.Second)), "asked earlier")
	require.True(t, over("a", until), "it was not renewed")

	require.False(t, over("b", now.Add(-time.Hour)), "the clock may have been set")
	now = now.Add(lease)
	ids, untils := s.unrenewed(2 * lease)
	require.Equal(t, []string{"a"}, ids)
	require.Equal(t, []time.Time{until}, untils)
	s.forget(func(id string) bool { return id == "b" })
	require.True(t, over("b", now.Add(-lease-time.Hour)))
	require.False(t, over("a", until), "it is seen for the first time again")
}
