package eval

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/suggest"
)

// The n-gram model proposes text that it has read. Its next-byte distributions sum to one after any
// typed text.
func TestNGramProposesWhatItHasRead(t *testing.T) {
	before := []byte(strings.Repeat("the red house, the blue house.\n", 5))
	g := newNGram(nil)
	o := suggest.Options{N: 5, Unit: suggest.Word}
	for typed, want := range map[string]string{
		"the re": "d", "the red": " house", "the red ": "house", "a blue h": "ouse", "zz": "",
	} {
		found, err := newNGram(nil).ask(t.Context(), before, []byte(typed), o)
		require.NoError(t, err)
		if want == "" {
			continue
		}
		require.NotEmpty(t, found.Candidates, typed)
		require.Equal(t, want, found.Candidates[0].Text, typed)
	}
	for _, typed := range []string{
		"", "th", "the ", "the house", "the house.\n", "é", "x\x00", strings.Repeat("z0", 500),
	} {
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
	o = suggest.Options{N: 1, Unit: suggest.Free}
	found, err := newNGram(nil).ask(t.Context(), before, []byte("the red hou"), o)
	require.NoError(t, err)
	next, text := "se, the blue house.\nthe red house, the blue house.\n", found.Candidates[0].Text
	require.True(t, strings.HasPrefix(next, text), text)
}

func TestNGramWeighsItsPrior(t *testing.T) {
	prior := counted(strings.Repeat("the green house, the green tree.\n", 50))
	o := suggest.Options{N: 1, Unit: suggest.Word}
	said := func(before string, prior *ngramCounts) (p float64) {
		found, err := newNGram(prior).ask(t.Context(), []byte(before), []byte("the gr"), o)
		require.NoError(t, err)
		for _, c := range found.Candidates {
			if c.Text == "een" {
				p = c.Probability
			}
		}
		return p
	}
	like := strings.Repeat("the green house.\n", 3)
	unlike := strings.Repeat("if grow() { grow(7) }\n", 30)
	require.Zero(t, said(unlike, nil))
	require.Greater(t, said(unlike, prior), 0.01)
	require.Greater(t, said(like, prior), 0.8)
	own := func(before string) float64 {
		g, sum := newNGram(prior), share{}
		g.learn([]byte(before), nil)
		for _, of := range g.shares {
			sum.own += of.own
			sum.prior += of.prior
		}
		return sum.own / (sum.own + sum.prior)
	}
	require.Greater(t, own(unlike), 0.8)
	require.Less(t, own(like), 0.6)
}

func TestPriorTakesTheSameShareOfEachFile(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a", strings.Repeat("a", 100))
	write(t, dir, "b", strings.Repeat("b", 300))
	for most, want := range map[int64]string{500: "100 300", 400: "100 300", 200: "50 150"} {
		texts, err := priorTexts(dir, most)
		require.NoError(t, err)
		require.Equal(t, want, fmt.Sprint(len(texts[0]), " ", len(texts[1])))
	}
}

func TestTypingComparesWithTheNGram(t *testing.T) {
	res, err := Typing(t.Context(), small(t, 0), typingFolder(t), TypingOptions{
		Methods: []string{NGram}, Read: []int64{1000}, Window: 60,
	})
	require.NoError(t, err)
	require.Greater(t, res.Scores[0].Word.Saved, 40.)

	// With a prior of similar text, suggestions save keystrokes even before the session has read
	// anything.
	o := TypingOptions{
		Methods: []string{NGram, NGramPrior}, Read: []int64{0}, Window: 60, Prior: typingFolder(t),
	}
	res, err = Typing(t.Context(), small(t, 0), typingFolder(t), o)
	require.NoError(t, err)
	require.Greater(t, res.Scores[1].Word.Saved, res.Scores[0].Word.Saved+10)
}
