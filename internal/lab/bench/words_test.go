package bench

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/tokenizer"
	"github.com/lmserve/lmserve/txl"
)

// wordConfig is a small configuration with clusters of every kind.
var wordConfig = txl.Config{
	NLayer: 2, DModel: 16, NHead: 2, DHead: 8, DInner: 32, Vocab: 3000, SegLen: 16, MemLen: 24,
	Cutoffs: []int{100, 1000}, DivVal: 2, TieProjs: []bool{false, true},
}

func words(t *testing.T) *model.Model {
	m, err := RandomModel("words", wordConfig)
	require.NoError(t, err)
	return m
}

func TestModelOfWordsIsMeasuredInWords(t *testing.T) {
	m := words(t)
	require.Equal(t, 50, m.Chunk)
	require.InDelta(t, 0.3, m.Learner.Settings.P, 1e-9)
	o := quick()
	o.Threads, o.Only = 1, []string{Kernels, Chunks, Train, Decode, Sessions}
	r := reported(t, m, o)
	requireSound(t, r)
	for _, what := range []string{"softmax", "softmax, tail 1", "softmax, tail 2"} {
		r.find(t, Kernels, what+"  x Wᵀ", 1)
	}
	require.Equal(t, "token/s", r.find(t, Chunks, "static chunk", 1).Unit)
	require.Positive(t, r.find(t, Train, "step of training", 1).Seconds)
	require.Positive(t, r.find(t, Decode, "decoded token", 1).Seconds)
	require.Equal(t, "token/s", r.find(t, Sessions, "sessions", 1).Unit)
	require.Greater(t, r.Bytes.Session, r.Bytes.Static)
	require.EqualValues(t, 4*r.Weights, r.Bytes.Weights)
}

// The language's ids follow Zipf's law, which determines each cluster's share of the tokens.
func TestWordsFollowZipfsLaw(t *testing.T) {
	m := words(t)
	l := newLanguage(m.Tokenizer)
	clusters := m.LM.Layout.Clusters()
	shares := l.shares(clusters)
	const n = 100_000
	found := make([]float64, len(clusters))
	for i := range uint64(n) {
		id, at := int(l.token(i)), 0
		for ; id >= clusters[at].Tokens; at++ {
			id -= clusters[at].Tokens
		}
		found[at] += 1. / n
	}
	require.InDeltaSlice(t, shares, found, 0.005)
	require.InDelta(t, 1, shares[0]+shares[1]+shares[2], 1e-9)
	require.Greater(t, shares[0], 0.6)
}

func TestTextHasRequestedTokens(t *testing.T) {
	m := words(t)
	tok := m.Tokenizer
	text := newLanguage(tok).text(40)
	var tokens tokenizer.Tokens
	var pending tokenizer.Pending
	require.Empty(t, tok.Next(&tokens, &pending, text, 1000))
	require.Len(t, tokens.IDs, 40)
	require.Zero(t, pending.Size())
	require.Equal(t, tok.Start(), tokens.IDs[39])
	require.Len(t, newLanguage(tokenizer.Bytes{}).text(40), 40)
}

func TestOperationsOfTheModelOfWords(t *testing.T) {
	c, err := txl.Named("wt103-16l")
	require.NoError(t, err)
	// Of 100 rows, 90 have targets in the head, 5 in the second tail, and 5 in the last tail.
	s := segment{Config: c, batch: 1, rows: 100, memory: 0, shares: []float64{0.9, 0, 0.05, 0.05}}
	head, tails := 100*20003*410, 5*160000*410+5*67735*410
	require.EqualValues(t, 2*(head+tails), s.vocabularyForward())
	require.InDelta(t, 4*(160000+67735)*410, s.tailReads(), 0.01*4*227735*410)

	// Only the softmax's tables need a gradient. If the input has separate tables, backward skips
	// everything below the softmax.
	table := func(name string) bool { return strings.HasSuffix(name, "ers.0.weight") }
	softmax := func(name string) bool { return name == "crit.out_layers.0.weight" }
	tied := s.backward(table)
	s.UntieSoftmax = true
	require.EqualValues(t, 2*(100*20000*410+tails), s.backward(softmax))
	require.Equal(t, tied, s.backward(table), "of both tables as much as of the one for both")
	require.Less(t, s.backward(softmax), tied/2)
}
