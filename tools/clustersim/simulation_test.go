package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func small() cluster {
	c := defaults()
	c.nodes, c.sessions, c.rate, c.rack, c.databaseCores = 20, 200_000, 1000, 2, 4
	return c
}

func ran(c cluster) *simulation {
	s := newSimulation(c)
	s.run()
	return s
}

// Without overload, the work of servers and database equals the total cost of the requests. The
// median request does not wait for a free core.
func TestCalmClusterDoesWhatItIsAsked(t *testing.T) {
	c := small()
	c.rack, c.rate = 0, 200
	p := ran(c).phases[3]
	seconds := p.to - p.from
	requests := float64(p.waits.count()) / seconds
	require.InEpsilon(t, c.rate, requests, .05)
	work := float64(c.bytes) * c.costs.byte
	require.InEpsilon(t, requests*work, p.serversBusy/seconds, .1)
	least := work + hop + statementCore + statementWait
	require.InEpsilon(t, least, p.waits.quantile(.5), .1, "half of the requests wait for nobody")
	require.Zero(t, p.refused)
	require.Zero(t, p.claims)
	// one append per request, four statements per burst, and the heartbeats
	statements := requests*(1+4/c.burst) + float64(c.nodes)/heartbeat
	require.InEpsilon(t, statements*statementCore, p.databaseBusy/seconds, .05)
}

func TestSessionsOfLostRackAreTakenOver(t *testing.T) {
	c := small()
	s := ran(c)
	before, leased, after, later := s.phases[0], s.phases[1], s.phases[2], s.phases[3]
	require.Zero(t, before.refused+before.claims)
	require.Positive(t, leased.refused)
	require.Zero(t, leased.claims, "the lease is not over")
	require.Positive(t, after.claims)
	// Sessions in the middle of a burst are claimed within seconds. The others are claimed at their
	// next request.
	share := float64(c.rack) / float64(c.nodes)
	require.InEpsilon(t, c.rate*c.think*share, float64(after.claims), .4)
	require.Less(t, later.claims/2, after.claims)
	require.Greater(t, after.waits.quantile(.99), before.waits.quantile(.99))
	require.Less(t, later.waits.quantile(.99), after.waits.quantile(.99))
	require.Equal(t, s.phases, ran(c).phases, "the same seed, the same cluster")
}

func TestOverloadedClusterWorksAtCapacity(t *testing.T) {
	c := small()
	c.rack, c.rate = 0, 2*float64(c.nodes*c.cores)/(float64(c.bytes)*c.costs.byte)
	p := ran(c).phases[3]
	require.InEpsilon(t, c.rate/2, float64(p.waits.count())/(p.to-p.from), .05)
}

func TestReportHasBothTables(t *testing.T) {
	var out bytes.Buffer
	c := small()
	c.rate = 100
	report(&out, c)
	require.Contains(t, out.String(), "2 servers lost: 20 to 30")
	require.Contains(t, out.String(), "1.25 x")
	c.rack = c.nodes
	require.ErrorContains(t, c.check(), "-rack is 20, expected 0 to 19")
}

func TestQuantilesAreThoseOfWhatWasAdded(t *testing.T) {
	var h histogram
	for i := 1; i <= 1000; i++ {
		h.add(float64(i) / 1000)
	}
	require.Equal(t, 1000, h.count())
	require.InEpsilon(t, .5, h.quantile(.5), .06)
	require.InEpsilon(t, .99, h.quantile(.99), .06)
}
