package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRulesDisagreeOnEveryCard(t *testing.T) {
	g := newGame(1)
	for range 20 {
		last := g.rule
		g.change()
		require.NotEqual(t, last, g.rule)
		cards, categories, before := g.deal()
		for i := range episode {
			require.NotEqual(t, before[i], categories[i])
			card := cards[i*inputs:][:inputs]
			require.Equal(t, 1., card[g.rule*codes+categories[i]])
			require.Equal(t, 1., card[last*codes+before[i]])
			ones := 0.
			for _, x := range card {
				ones += x
			}
			require.Equal(t, float64(features), ones)
		}
	}
}

func TestAgentsFindRules(t *testing.T) {
	for _, m := range []method{
		{Name: "Sparse-MetaNet", Solver: "adam", Rate: 0.001, Fast: true},
		{Name: "offline Adam", Solver: "adam", Rate: 0.001, Offline: true},
		{Name: "offline RMSProp", Solver: "rmsprop", Rate: 0.001, Offline: true},
	} {
		first, err := run(m, 3, 1)
		require.NoError(t, err)
		for _, r := range first {
			require.False(t, r.Failed, "%s: %v", m.Name, first)
		}
		again, err := run(m, 3, 1)
		require.NoError(t, err)
		require.Equal(t, first, again, m.Name)
	}
}

// With seed 8, the second layer of the first agent is inactive for every card. A new agent replaces
// it.
func TestDeadAgentIsReplaced(t *testing.T) {
	m := method{Name: "Sparse-MetaNet", Solver: "adam", Rate: 0.001, Fast: true}
	r, err := run(m, 1, 8)
	require.NoError(t, err)
	require.Equal(t, 1, r[0].Restarts)
	require.False(t, r[0].Failed)
	require.Less(t, r[0].Updates, giveUp)
}
