package eval

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/suggest"
)

// The rival's distributions sum to one, whatever was typed, and it proposes what it has read.
func TestTheNGramProposesWhatItHasRead(t *testing.T) {
	before := []byte(strings.Repeat("the red house, the blue house.\n", 5))
	g := newNGram(nil)
	o := suggest.Options{N: 5, Unit: suggest.Word}
	for typed, want := range map[string]string{
		"the re": "d", "the red": " house", "the red ": "house", "a blue h": "ouse", "zz": "",
	} {
		found, err := newNGram(nil).ask(t.Context(), before, []byte(typed), o)
		require.NoError(t, err)
		if want == "" {
			continue // nothing that it has read begins so
		}
		require.NotEmpty(t, found.Candidates, typed)
		require.Equal(t, want, found.Candidates[0].Text, typed)
	}
	for _, typed := range []string{"", "th", "the ", "the house", "the house.\n", "é", "x\x00"} {
		_, err := g.ask(t.Context(), before, []byte(typed), o)
		require.NoError(t, err)
		p := suggest.Prefix{ID: 0, Parent: suggest.None, LogProbs: make([]float32, 256)}
		g.Grow([]suggest.Prefix{p})
		sum := 0.
		for _, l := range p.LogProbs {
			sum += math.Exp(float64(l))
		}
		require.InDelta(t, 1, sum, 1e-4, typed)
		g = newNGram(nil)
	}
	found, err := newNGram(nil).ask(t.Context(), before, []byte("the red hou"), suggest.Options{N: 1, Unit: suggest.Free})
	require.NoError(t, err)
	require.True(t, strings.HasPrefix("se, the blue house.\nthe red house, the blue house.\n", found.Candidates[0].Text),
		found.Candidates[0].Text)
}

func TestTypingComparesWithTheNGram(t *testing.T) {
	res, err := Typing(t.Context(), small(t, 0), typingFolder(t), TypingOptions{
		Methods: []string{NGram}, Read: []int64{1000}, Window: 60,
	})
	require.NoError(t, err)
	require.Greater(t, res.Scores[0].Word.Saved, 40.)
}
