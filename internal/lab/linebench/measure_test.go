package main

import (
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// threeIncidents returns a log with one incident of each kind. The second incident has two lines
// with an ordinary line between them.
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

func TestThresholdPassesAllowedOrdinaryLines(t *testing.T) {
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
	d := drain{groups: map[drainGroup]*drainLeaf{}}
	require.Equal(t, 1., d.rate("connect to 10.0.0.1 as anna"), "half a line of one")
	require.Equal(t, -math.Log2(1.5/2), d.rate("connect to 10.0.0.2 as bela"), "the same template")
	require.Equal(t, -math.Log2(.5/3), d.rate("connect to 10.0.0.2 as bela or carl"))
	require.Equal(t, -math.Log2(2.5/4), d.rate("connect to 10.0.0.9 as carl"))
}

func TestWordsAreRareByTheLinesThatHaveThem(t *testing.T) {
	c := counter{count: map[string]float64{}}
	c.rate(spaced("anna came in in 1999"))
	require.Equal(t, map[string]float64{"anna": 1, "came": 1, "in": 1, variable: 1}, c.count)
	most, sum := c.rate(spaced("bela came 7 8"))
	require.Equal(t, 2., most)
	require.InDelta(t, 2-2*math.Log2(.75), sum, 1e-12)
}

// The six evaluated lines have the ratings 0, 5, 7, 1, 5 and 9. Counted from 0, lines 1, 3 and 5
// are anomalous.
func TestLabelledLinesAreFoundByRating(t *testing.T) {
	log := make([]scored, unjudged+6)
	ratings := make([]float64, len(log))
	for i := range log {
		log[i].label = ordinaryLabel
	}
	for i, rating := range map[int]float64{1: 5, 2: 7, 3: 1, 4: 5, 5: 9} {
		ratings[unjudged+i] = rating
	}
	log[unjudged+1].label, log[unjudged+3].label, log[unjudged+5].label = "a", "a", "b"
	m := find(log, ratings)
	require.InDelta(t, (1.+2./4+3./5)/3, m.ap, 1e-12)
	require.Equal(t, 1., m.hits, "the highest one of six is anomalous")
	require.InDelta(t, (1./1+2./(2+1.5))/2, m.incidentAP, 1e-12, "a tie counts as half")
	require.Equal(t, .5, m.incidents)
}

func TestLogThatIsTooShortIsRefused(t *testing.T) {
	for _, text := range []string{"", "one line\n"} {
		path := filepath.Join(t.TempDir(), "short.log")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		err := printComparisons(io.Discard, []string{path}, math.MaxInt, 1)
		require.ErrorContains(t, err, "short.log: found 1 lines, expected more than 50")
		err = printChanges(io.Discard, []string{path})
		require.ErrorContains(t, err, "short.log: found 1 lines, expected more than 50")
	}
}
