package train

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/learning/train/corpus"
	"github.com/lmserve/lmserve/tokenizer"
	"github.com/lmserve/lmserve/txl"
)

func statisticsModel(t *testing.T) *model.Model {
	lm, err := txl.NewModel(txl.Config{NLayer: 2, DModel: 8, NHead: 2, DHead: 4, DInner: 12,
		Vocab: 256, SegLen: 8, MemLen: 12})
	require.NoError(t, err)
	lm.Init(1)
	m, err := model.New("small", lm, nil, 8, nil)
	require.NoError(t, err)
	return m
}

func textsOf(texts ...string) *corpus.Corpus {
	c := &corpus.Corpus{Dir: "memory"}
	for _, text := range texts {
		c.Documents = append(c.Documents, corpus.NewDocument("a", []byte(text)))
	}
	return c
}

// With a single chunk, the root mean square is the absolute value of the gradient, for every
// weight. The text before the chunk fills the memory.
func TestStatisticsOfOneChunkAreItsGradient(t *testing.T) {
	m := statisticsModel(t)
	x := kernel.NewExec(1)
	defer x.Close()
	const text = "the quick brown fox jumps over!!"
	g := newGatherer(x, m, 8)
	g.add(&textsOf(text).Documents[0], 24)
	got, err := g.rms(1)
	require.NoError(t, err)

	seg, mem := txl.NewSegment(m.LM.Config, 1, 8), txl.NewMemory(m.LM.Config, 1)
	want := make([]float32, len(m.LM.W))
	// two chunks of 8 tokens fill the memory of 12 tokens before the third chunk
	for at := 8; at < 32; at += 8 {
		inputs, targets := make([]int32, 8), make([]int32, 8)
		for i := range targets {
			inputs[i], targets[i] = int32(text[at+i-1]), int32(text[at+i])
		}
		seg.Begin(x, m.LM, nil, mem)
		seg.Extend(x, inputs)
		seg.Backward(x, targets, m.LM.Layout.Slices(want))
		seg.Remember(mem)
	}
	for i := range want {
		require.InDelta(t, math.Abs(float64(want[i])), got[i], 1e-7*math.Abs(float64(want[i]))+
			1e-20, "weight %d", i)
	}
}

// Many draws choose each position of a small corpus about equally often. The result then approaches
// the mean over all positions.
func TestStatisticsApproachTheMeanOverAllPlaces(t *testing.T) {
	m := statisticsModel(t)
	x := kernel.NewExec(2)
	defer x.Close()
	// a chunk has 1, 0 and 3 possible positions in these documents
	c := textsOf("abcabcab", "tiny", "0123456789")
	g := newGatherer(x, m, 8)
	for i := range 4 {
		g.add(c.Place(i, 8))
	}
	want, err := g.rms(4)
	require.NoError(t, err)
	got, err := GradientRMS(t.Context(), x, m, c, 400, 8, 7, nil)
	require.NoError(t, err)
	var dot, a, b float64
	for i := range want {
		dot, a, b = dot+float64(got[i])*float64(want[i]), a+float64(got[i])*float64(got[i]),
			b+float64(want[i])*float64(want[i])
	}
	require.Greater(t, dot/math.Sqrt(a*b), 0.995)
	require.InEpsilon(t, math.Sqrt(b), math.Sqrt(a), 0.05)

	again, err := GradientRMS(t.Context(), x, m, c, 400, 8, 7, nil)
	require.NoError(t, err)
	require.Equal(t, got, again, "same seed, same places")
	x.SetThreads(1)
	again, err = GradientRMS(t.Context(), x, m, c, 400, 8, 7, nil)
	require.NoError(t, err)
	require.Equal(t, got, again, "on one thread")
	other, err := GradientRMS(t.Context(), x, m, c, 400, 8, 8, nil)
	require.NoError(t, err)
	require.NotEqual(t, got, other)
	_, err = m.WithStatistics(got)
	require.NoError(t, err, "what a model takes")
}

// A model of words counts the length of a chunk in words. The corpus has as many words as a chunk,
// so there is only one position.
func TestStatisticsOfWordsAreOfTheirTokens(t *testing.T) {
	tok, err := tokenizer.NewWords([]string{"<eos>", "a", "b", "<unk>"})
	require.NoError(t, err)
	c := txl.Config{NLayer: 1, DModel: 8, NHead: 2, DHead: 4, DInner: 12, Vocab: 4, SegLen: 8,
		MemLen: 12, Cutoffs: []int{3}}
	lm, err := txl.NewModel(c)
	require.NoError(t, err)
	lm.Init(1)
	m, err := model.NewOf(tok, "small", lm, nil, 4, nil)
	require.NoError(t, err)
	x := kernel.NewExec(1)
	defer x.Close()
	got, err := GradientRMS(t.Context(), x, m, textsOf("a b word\n"), 3, 4, 1, nil)
	require.NoError(t, err)

	seg, want := txl.NewSegment(c, 1, 4), make([]float32, len(lm.W))
	seg.Begin(x, lm, nil, txl.NewMemory(c, 1))
	seg.Extend(x, []int32{0, 1, 2, 3})
	seg.Backward(x, []int32{1, 2, 3, 0}, lm.Layout.Slices(want))
	for i := range want {
		require.InEpsilon(t, 1+math.Abs(float64(want[i])), 1+got[i], 1e-6, "weight %d", i)
	}
	_, err = GradientRMS(t.Context(), x, m, textsOf("a b\n"), 3, 4, 1, nil)
	require.ErrorContains(t, err, "has no file of at least 4 tokens")
}

func TestStatisticsSayWhatIsWrong(t *testing.T) {
	m := statisticsModel(t)
	x := kernel.NewExec(1)
	defer x.Close()
	_, err := GradientRMS(t.Context(), x, m, textsOf("1234567", "x"), 3, 8, 1, nil)
	require.ErrorIs(t, err, corpus.ErrData)
	require.ErrorContains(t, err, "8 bytes")
	_, err = GradientRMS(t.Context(), x, m, textsOf("12345678"), 0, 8, 1, nil)
	require.ErrorContains(t, err, "0 chunks")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = GradientRMS(ctx, x, m, textsOf(strings.Repeat("x", 99)), 3, 8, 1, nil)
	require.ErrorIs(t, err, context.Canceled)
	m.LM.W[5] = float32(math.NaN())
	_, err = GradientRMS(t.Context(), x, m, textsOf("12345678"), 1, 8, 1, nil)
	require.ErrorIs(t, err, ErrDiverged)
}
