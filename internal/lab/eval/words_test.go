package eval

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/setting"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/sparsemeta"
	"github.com/lmserve/lmserve/tokenizer"
	"github.com/lmserve/lmserve/txl"
)

func smallOfWords(t *testing.T) *model.Model {
	tok, err := tokenizer.NewWords(strings.Fields("<eos> the a fox <unk> dog hen cat"))
	require.NoError(t, err)
	lm, err := txl.NewModel(txl.Config{
		NLayer: 1, DModel: 8, NHead: 2, DHead: 4, DInner: 8, Vocab: 8, SegLen: 8, MemLen: 8,
		Cutoffs: []int{3, 6},
	})
	require.NoError(t, err)
	lm.Init(1)
	branches, err := model.Branches(lm.Layout, nil)
	require.NoError(t, err)
	l := &sparsemeta.Learner{Branches: branches, Settings: sparsemeta.PaperSettings()}
	l.Init(sparsemeta.InitSmall(), 1)
	m, err := model.NewOf(tok, "words", lm, l, 4, nil)
	require.NoError(t, err)
	m, err = m.WithStatistics(make([]float32, len(lm.W)))
	require.NoError(t, err)
	return m
}

// wordTexts contain unknown words. The first text ends without white space after its last word.
var wordTexts = []struct {
	name, text      string
	tokens, unknown int64
}{
	{"a/one", "the fox\n\nthe wolf", 7, 1},
	{"b/two", strings.Repeat("the hen a cat  the owl\n", 120), 840, 120},
}

func wordCorpus(t *testing.T) (dir string) {
	dir = t.TempDir()
	for _, doc := range wordTexts {
		write(t, dir, doc.name, doc.text)
	}
	return dir
}

// The perplexity of a text is 2 to the power of its bits per token. The end of the last line is a
// token even without a newline. Bits per byte count only known words.
func TestWordsHaveAPerplexity(t *testing.T) {
	m := smallOfWords(t)
	w := stream.NewWorker(m, 1)
	defer w.Close()
	methods := slices.DeleteFunc(stream.Methods(),
		func(s string) bool { return s == stream.Counts })
	methods = append(methods, stream.SparseMeta+WithCompanion)
	res := evaluate(t, m, wordCorpus(t), Options{Methods: methods, Seed: 3})
	require.True(t, res.Words)
	sums := make([]tokenizer.Tally, len(res.Methods))
	for i, doc := range wordTexts {
		d := res.Documents[i]
		require.EqualValues(t, len(doc.text), d.Bytes)
		require.Equal(t, []int64{doc.tokens, doc.unknown}, []int64{d.Tokens, d.Unknown})
		for k, method := range res.Methods {
			name, companion := strings.CutSuffix(method, WithCompanion)
			set := stream.DefaultsFor(m, name)
			set.Seed, set.Companion = 3, companion
			s := stream.New(m, set)
			w.Feed(s, []byte(doc.text), nil)
			w.End(s, nil)
			score := d.Scores[k]
			require.Equal(t, s.Tally.Bits, score.Bits)
			require.Equal(t, math.Exp2(s.Tally.Bits/float64(doc.tokens)), score.Perplexity)
			require.Equal(t, s.Tally.BitsPerByte(), score.BitsPerByte)
			require.InDelta(t, 100*(1-score.Perplexity/d.Scores[0].Perplexity), *score.GainPercent,
				1e-9)
			require.InEpsilon(t, 1e6*score.Seconds/float64(doc.tokens), score.MicrosPerToken, 1e-9)
			sums[k].Add(s.Tally)
		}
	}
	for k, s := range res.Total.Scores {
		require.InEpsilon(t, sums[k].Perplexity(), s.Perplexity, 1e-9)
		require.InEpsilon(t, sums[k].BitsPerByte(), s.BitsPerByte, 1e-9)
	}
	require.EqualValues(t, 121, res.Total.Unknown)
}

func TestCacheIsDistributionOverAllClusters(t *testing.T) {
	m := smallOfWords(t)
	w := stream.NewWorker(m, 1)
	defer w.Close()
	s := stream.New(m, stream.DefaultsFor(m, stream.Cache))
	alone := stream.DefaultsFor(m, stream.Static)
	alone.Companion = false
	static := stream.New(m, alone)
	var cached, plain []float64
	text := []byte(strings.Repeat("cat hen fox\n", 5))
	for rest := text; len(rest) > 0; {
		rest = rest[w.Read(s, rest, func(next stream.Token) {
			sum := 0.
			for _, v := range next.LogProbs {
				sum += math.Exp(float64(v))
			}
			require.InDelta(t, 1, sum, 1e-5)
			cached = append(cached, float64(next.LogProbs[next.ID]))
		}):]
	}
	for rest := text; len(rest) > 0; {
		rest = rest[w.Read(static, rest, func(next stream.Token) {
			plain = append(plain, float64(next.LogProbs[next.ID]))
		}):]
	}
	require.Len(t, cached, 20)
	require.InDelta(t, plain[0], cached[0], 1e-6, "nothing is in the cache")
	require.Greater(t, cached[19], plain[19])
	nll := 0.
	for _, v := range cached {
		nll -= v / math.Ln2
	}
	require.InDelta(t, nll, s.Tally.Bits, 1e-4, "what is scored is from that distribution")
}

// A stream that is never reset scores the last word of every document, even without white space
// after it. The ranges of Windows are in tokens.
func TestWordsOfOneStream(t *testing.T) {
	m := smallOfWords(t)
	res := evaluate(t, m, wordCorpus(t), Options{Reset: ResetNever, Seed: 3})
	require.EqualValues(t, 847, res.Total.Tokens)
	for _, p := range res.Windows {
		require.LessOrEqual(t, p.To, res.Total.Tokens)
		require.Nil(t, p.BitsPerByte)
		require.Len(t, p.BitsPerToken, len(res.Methods))
	}
	require.EqualValues(t, 847/128*128, res.Windows[len(res.Windows)-1].To, "up to the end")
	c := res.Chart()
	require.Equal(t, "perplexity", c.Y.Label)
	require.Contains(t, c.X.Label, "tokens of the stream seen")
	text, err := json.Marshal(res)
	require.NoError(t, err)
	var back Result
	require.NoError(t, json.Unmarshal(text, &back))
	require.Equal(t, res, back)
}

func TestCurveOfWords(t *testing.T) {
	res := evaluate(t, smallOfWords(t), wordCorpus(t), Options{Methods: []string{stream.Static}})
	require.Len(t, res.Curve, 1)
	require.EqualValues(t, 512, res.Curve[0].To)
	require.Equal(t, 1, res.Curve[0].Texts)
}

func TestSettingsOfRowsTakeThePlaceOfTheModels(t *testing.T) {
	m, dir := smallOfWords(t), wordCorpus(t)
	methods := []string{stream.Static, stream.SparseMeta, stream.DynamicSGD}
	own := evaluate(t, m, dir, Options{Methods: methods})
	asked := setting.Values{"p": 0.}
	none := evaluate(t, m, dir, Options{Methods: methods, Settings: asked})
	require.Equal(t, setting.Values{"p": 0.}, asked, "what is asked for stays as it is")
	require.Equal(t, none.Total.Scores[0].Bits, none.Total.Scores[1].Bits,
		"no fast weight is written")
	require.NotEqual(t, own.Total.Scores[0].Bits, own.Total.Scores[1].Bits)
	require.Equal(t, own.Total.Scores[2].Bits, none.Total.Scores[2].Bits, "it has no p")
	longer := evaluate(t, m, dir, Options{Methods: methods, Settings: setting.Values{"chunk": 8}})
	require.NotEqual(t, own.Total.Scores[2].Bits, longer.Total.Scores[2].Bits)

	err := Options{Settings: setting.Values{"gammas": []float32{.9, .99}}}.Validate(m)
	require.ErrorContains(t, err, "gammas")
	require.ErrorContains(t, Options{Settings: setting.Values{"chunk": 0}}.Validate(m), "chunk")
}
