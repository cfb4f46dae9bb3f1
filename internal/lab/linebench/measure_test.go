package main

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// threeIncidents has an incident of each kind; the second one has two lines, one line apart.
func threeIncidents() []scored {
	log := make([]scored, 12)
	for i := range log {
		log[i].incident = -1
	}
	log[2].kind, log[2].incident = foreign, 0
	log[5].kind, log[5].incident = field, 1
	log[7].kind, log[7].incident = field, 1
	log[9].kind, log[9].incident = wrong, 2
	return log
}

func TestMeasuresAreThoseOfWhatWasFlagged(t *testing.T) {
	flagged := map[int]bool{0: true, 2: true, 7: true, 8: true}
	o := measure(threeIncidents(), 1, func(i int) bool { return flagged[i] })
	require.Equal(t, [4]int{7, 1, 2, 1}, o.lines)
	require.Equal(t, [4]int{1, 1, 1, 0}, o.flagged)
	require.Equal(t, 3, o.incidents)
	require.Equal(t, 2, o.found)
	require.Equal(t, 2, o.lag, "the second incident was found two lines after its first line")
	require.Equal(t, []float64{2. / 3}, o.precisions)
	require.Equal(t, []float64{2. / 4}, o.recalls)
	require.Equal(t, 1., o.recall(foreign))
	require.Equal(t, .5, o.recall(field))
}

func TestTheThresholdLetsThroughAsManyOrdinaryLinesAsItMay(t *testing.T) {
	log := threeIncidents()
	ratings := []float64{99, 1, 50, 2, 3, 50, 4, 50, 5, 50, 6, 7}
	for alarms, want := range []float64{7, 6, 5} {
		limit := threshold(log, 1, ratings, alarms)
		require.Equal(t, want, limit)
		o := measure(log, 1, func(i int) bool { return ratings[i] > limit })
		require.Equal(t, alarms, o.flagged[ordinary])
	}
	require.Equal(t, map[int]bool{2: true, 5: true}, top(1, ratings, 2), "the earlier of equals")
}

func TestTemplatesMergeLinesThatDifferInTheirVariables(t *testing.T) {
	counted := templates{groups: map[group][]*template{}}
	require.Zero(t, counted.surprise("connect to 10.0.0.1 as anna"))
	require.Zero(t, counted.surprise("connect to 10.0.0.2 as bela"), "the same template")
	require.Equal(t, math.Log2(3), counted.surprise("connect to 10.0.0.2 as bela or carl"),
		"one line of three")
	rare := vocabulary{count: map[string]float64{}}
	rare.surprise("anna came in")
	require.Equal(t, 1., rare.surprise("bela came in"))
}
