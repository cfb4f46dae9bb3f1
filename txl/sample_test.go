package txl

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func logs(weights ...float64) []float32 {
	total := 0.0
	for _, w := range weights {
		total += w
	}
	out := make([]float32, len(weights))
	for i, w := range weights {
		out[i] = float32(math.Log(w / total))
	}
	return out
}

func frequencies(p Sampling, logProbs []float32, n int) []float64 {
	s := NewSampler(p, len(logProbs))
	f := make([]float64, len(logProbs))
	for range n {
		f[s.Next(logProbs)] += 1 / float64(n)
	}
	return f
}

func TestSamplingFollowsTheDistribution(t *testing.T) {
	const n = 40000
	logProbs := logs(4, 1, 3, 2)
	for name, c := range map[string]struct {
		p    Sampling
		want []float64
	}{
		"the model's own": {Sampling{Temperature: 1}, []float64{.4, .1, .3, .2}},
		"cooler": {Sampling{Temperature: .5}, []float64{16. / 30, 1. / 30, 9. / 30,
			4. / 30}},
		"two likeliest":  {Sampling{Temperature: 1, TopK: 2}, []float64{4. / 7, 0, 3. / 7, 0}},
		"nucleus":        {Sampling{Temperature: 1, TopP: .65}, []float64{4. / 7, 0, 3. / 7, 0}},
		"nucleus of one": {Sampling{Temperature: 1, TopP: 1e-9}, []float64{1, 0, 0, 0}},
		"nucleus among k": {Sampling{Temperature: 1, TopK: 3, TopP: .9},
			[]float64{4. / 9, 0, 3. / 9, 2. / 9}},
		"all of them twice": {Sampling{Temperature: 1, TopK: 99, TopP: 1},
			[]float64{.4, .1, .3, .2}},
	} {
		for i, f := range frequencies(c.p, logProbs, n) {
			require.InDelta(t, c.want[i], f, 5*math.Sqrt(.25/n), "%s, token %d", name, i)
		}
	}
}

func TestZeroTemperatureTakesLikeliestThenLowest(t *testing.T) {
	require.Equal(t, []float64{0, 1, 0, 0}, frequencies(Sampling{}, logs(1, 3, 3, 2), 1))
}

func TestRanksAreInTheOrderOfProbabilities(t *testing.T) {
	special := []float32{
		0, float32(math.Copysign(0, -1)), float32(math.NaN()), -float32(math.NaN()),
		float32(math.Inf(1)), float32(math.Inf(-1)), math.MaxFloat32, -1, 1,
		math.SmallestNonzeroFloat32, -math.SmallestNonzeroFloat32,
	}
	rapid.Check(t, func(t *rapid.T) {
		draw := rapid.OneOf(rapid.SampledFrom(special), rapid.Float32())
		a, b := draw.Draw(t, "a"), draw.Draw(t, "b")
		require.Equal(t, cmp.Compare(b, a), cmp.Compare(rank(a), rank(b)), "%v, %v", a, b)
	})
}

func TestSameSeedDrawsSameTokens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Sampling{Temperature: rapid.Float64Range(0.1, 3).Draw(t, "temperature"),
			TopK: rapid.IntRange(0, 6).Draw(t, "top_k"),
			TopP: rapid.Float64Range(0, 1).Draw(t, "top_p"), Seed: rapid.Uint64().Draw(t, "seed")}
		require.NoError(t, p.Validate())
		logProbs := logs(rapid.SliceOfN(rapid.Float64Range(1e-6, 1), 5, 5).Draw(t, "weights")...)
		a, b := NewSampler(p, 5), NewSampler(p, 5)
		byProbability := []int32{0, 1, 2, 3, 4}
		slices.SortStableFunc(byProbability, func(i, j int32) int {
			if logProbs[i] > logProbs[j] {
				return -1
			}
			return 1
		})
		for range 20 {
			id := a.Next(logProbs)
			require.Equal(t, id, b.Next(logProbs))
			if p.TopK > 0 && p.TopK < 5 {
				worst := logProbs[byProbability[p.TopK-1]]
				require.GreaterOrEqual(t, logProbs[id], worst, "among the k likeliest")
			}
		}
	})
}

// For a large vocabulary, the sampler sorts only the likeliest tokens. The drawn token must be the
// one that a full sort would give.
func TestLargeVocabularyDrawsAsIfSorted(t *testing.T) {
	const vocab = 5 * sortedLeast
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		flat := rapid.Float64Range(0, 8).Draw(t, "flat")
		rng := rand.New(rand.NewPCG(seed, 1))
		logProbs := make([]float32, vocab)
		order := make([]int, vocab)
		for i := range logProbs {
			logProbs[i], order[i] = float32(flat*rng.NormFloat64()), i
		}
		logProbs[rng.IntN(vocab)] = float32(math.Inf(-1))
		slices.SortStableFunc(order, func(i, j int) int {
			return cmp.Compare(logProbs[j],
				logProbs[i])
		})
		p := Sampling{
			Temperature: rapid.Float64Range(0.2, 2).Draw(t, "temperature"),
			TopK:        rapid.SampledFrom([]int{0, 0, 3, 2000}).Draw(t, "top_k"),
			MinP:        rapid.SampledFrom([]float64{0, 0, 1, .1, .001}).Draw(t, "min_p"),
			TopP:        rapid.SampledFrom([]float64{0, 1, .5, .999}).Draw(t, "top_p"), Seed: seed,
		}
		s, draws := NewSampler(p, vocab), NewSampler(p, vocab)
		for range 5 {
			require.EqualValues(t, drawSorted(p, draws.rng, logProbs, order), s.Next(logProbs))
		}
	})
}

func drawSorted(p Sampling, rng *rand.Rand, logProbs []float32, order []int) int {
	if p.TopK > 0 {
		order = order[:p.TopK]
	}
	weights, total := make([]float64, len(order)), 0.
	for i, id := range order {
		weights[i] = math.Exp(float64(logProbs[id]-logProbs[order[0]]) / p.Temperature)
		if weights[i] < p.MinP {
			order = order[:i]
			break
		}
		total += weights[i]
	}
	if p.TopP > 0 && p.TopP < 1 {
		n, sum := 0, 0.
		for ; n == 0 || sum < p.TopP*total; n++ {
			sum += weights[n]
		}
		order, total = order[:n], sum
	}
	at := rng.Float64() * total
	for i, id := range order {
		if at -= weights[i]; at < 0 {
			return id
		}
	}
	return order[len(order)-1]
}

func BenchmarkSampleWords(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	logProbs := make([]float32, 267_735)
	for i := range logProbs {
		logProbs[i] = float32(-12 + 2*rng.NormFloat64())
	}
	logProbs[17] = -1
	s := NewSampler(Sampling{Temperature: 1, TopP: .9}, len(logProbs))
	for b.Loop() {
		s.Next(logProbs)
	}
}

func TestSamplingErrorsNameTheField(t *testing.T) {
	for field, p := range map[string]Sampling{
		"temperature": {Temperature: -1}, "top_k": {TopK: -1},
		"top_p": {TopP: 1.5}, "min_p": {MinP: -.1},
	} {
		require.ErrorContains(t, p.Validate(), field)
	}
	require.ErrorContains(t, Sampling{Temperature: math.NaN()}.Validate(), "temperature")
	require.ErrorContains(t, Sampling{TopP: math.NaN()}.Validate(), "top_p")
}
