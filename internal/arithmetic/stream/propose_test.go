package stream

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/suggest"
)

// A quick search runs the network at most twice: for the root, and for the companion's proposals.
// Its candidates have the same probabilities as in a complete search.
func TestQuickSearchRanksWhatCountsPropose(t *testing.T) {
	m := upperModel(t)
	w := testWorker(t, m, 1)
	s := New(m, settings(m, nil))
	w.Feed(s, []byte(text), nil)
	all := map[string]float64{}
	var whole, quick Suggester
	o := suggest.Options{N: 5, Unit: suggest.Free, Calls: 100}
	found, err := w.Suggest(t.Context(), s, &whole, nil, o)
	require.NoError(t, err)
	require.True(t, found.Complete)
	for _, c := range found.Candidates {
		all[c.Text] = c.Probability
	}
	before := s.Hash()
	o.Quick = true
	found, err = w.Suggest(t.Context(), s, &quick, nil, o)
	require.NoError(t, err)
	require.Equal(t, before, s.Hash())
	require.False(t, found.Complete)
	require.LessOrEqual(t, found.Calls, 2)
	require.Greater(t, found.Rows, proposedQuick/2)
	require.LessOrEqual(t, found.Rows, 1+SuggestRowsMax)
	require.NotEmpty(t, found.Candidates)
	same := 0
	for _, c := range found.Candidates {
		if p, ok := all[c.Text]; ok {
			require.InDelta(t, p, c.Probability, 1e-4, c.Text)
			same++
		}
	}
	require.Positive(t, same)
}

func TestQuickSearchNeedsNoCompanion(t *testing.T) {
	m := upperModel(t)
	w := testWorker(t, m, 1)
	s := New(m, settings(m, func(s *Settings) { s.Companion = false }))
	w.Feed(s, []byte(text), nil)
	var k Suggester
	o := suggest.Options{N: 5, Unit: suggest.Auto, Quick: true}
	found, err := w.Suggest(t.Context(), s, &k, nil, o)
	require.NoError(t, err)
	require.Equal(t, 2, found.Calls)
	require.False(t, found.Complete)
}

func TestAutoChoosesByTheText(t *testing.T) {
	m := upperModel(t)
	w := testWorker(t, m, 1)
	s := New(m, settings(m, nil))
	w.Feed(s, []byte(text), nil)
	require.Equal(t, text[len(text)-20:]+"abc",
		string(s.recent([]byte("abc")))[len(s.recent(nil))-20:])
	for _, unit := range []suggest.Unit{suggest.Auto, suggest.UnitOf([]byte(text))} {
		var k Suggester
		found, err := w.Suggest(t.Context(), s, &k, nil, suggest.Options{N: 5, Unit: unit})
		require.NoError(t, err)
		want, err := w.Suggest(t.Context(), s, new(Suggester), nil,
			suggest.Options{N: 5, Unit: suggest.UnitOf(s.recent(nil))})
		require.NoError(t, err)
		require.Equal(t, want, found)
	}
}
