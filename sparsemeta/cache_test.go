package sparsemeta

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
)

// reading is a text as read by a model: the hidden state at each position, the symbol that follows,
// and the model's distribution of this symbol.
type reading struct {
	width, vocab int
	hidden       []float32 // [n,width]
	next         []int32
	logProbs     [][]float32 // [n,vocab]
}

func drawReading(t *rapid.T) *reading {
	r := &reading{width: rapid.SampledFrom([]int{4, 6, 32}).Draw(t, "width"),
		vocab: rapid.IntRange(1, 9).Draw(t, "vocab")}
	key := rapid.Uint64().Draw(t, "key")
	for i := range rapid.IntRange(1, 70).Draw(t, "positions") {
		for k := range r.width {
			r.hidden = append(r.hidden, float32(3*normal(key, uint64(1000*i+k))))
		}
		r.next = append(r.next, int32(kernel.Bits(key+1, uint64(i))%uint64(r.vocab)))
		row := make([]float32, r.vocab)
		for w := range row {
			row[w] = float32(5 * normal(key+2, uint64(1000*i+w)))
		}
		lse := kernel.Arithmetic{}.Vectors().LogSumExp(row)
		for w := range row {
			row[w] -= lse
		}
		r.logProbs = append(r.logProbs, row)
	}
	return r
}

func (r *reading) rows(lo, hi int) []float32 { return r.hidden[lo*r.width : hi*r.width] }

// mixture returns p(w) after position t for every symbol w. It computes the equation of Cache in
// float64.
func (r *reading) mixture(set CacheSettings, warm, t int) []float64 {
	p := make([]float64, r.vocab)
	scores, most, total := make([]float64, t), math.Inf(-1), 0.
	for i := max(0, t-set.Size); i < t; i++ {
		for k, h := range r.rows(i, i+1) {
			scores[i] += float64(h) * float64(r.rows(t, t+1)[k])
		}
		scores[i] *= float64(set.Theta) / math.Sqrt(float64(r.width))
		most = max(most, scores[i])
	}
	for i := max(0, t-set.Size); i < t; i++ {
		e := math.Exp(scores[i] - most)
		p[r.next[i]] += e
		total += e
	}
	lambda, positions := float64(set.Lambda), float64(min(t, set.Size))
	if warm > 0 {
		lambda *= positions / (positions + float64(warm))
	}
	for w := range p {
		model := math.Exp(float64(r.logProbs[t][w]))
		if total == 0 {
			p[w] = model
		} else {
			p[w] = (1-lambda)*model + lambda*p[w]/total
		}
	}
	return p
}

func drawCache(t *rapid.T) CacheSettings {
	return CacheSettings{
		Size:   rapid.SampledFrom([]int{1, 2, 7, 20, 100}).Draw(t, "size"),
		Theta:  rapid.SampledFrom([]float32{0, 0.3, 2, 1000}).Draw(t, "theta"),
		Lambda: rapid.SampledFrom([]float32{0, 0.1, 0.99}).Draw(t, "lambda"),
	}
}

// The cache agrees with its equation in float64. The results are bit-identical for pieces and
// chunks of any size, and for any number of threads. A score is a float32 dot product of up to 32
// numbers of size 3. Its error is about 1e-5 before the multiplication by theta.
func TestCacheFollowsItsDefinition(t *testing.T) {
	one, three := exec(t, 1), exec(t, 3)
	rapid.Check(t, func(t *rapid.T) {
		r, set := drawReading(t), drawCache(t)
		n := len(r.next)
		chunk := rapid.IntRange(1, n).Draw(t, "chunk")
		whole, pieces := NewCache(set, r.width), NewCache(set, r.width)
		whole.Warm = rapid.SampledFrom([]int{0, 1, 10}).Draw(t, "warm")
		pieces.Warm = whole.Warm
		for from := 0; from < n; from += chunk {
			to := min(from+chunk, n)
			want := r.nll(from, to)
			whole.Mix(one, r.rows(from, to), r.next[from:to], want)
			for lo := from; lo < to; {
				hi := rapid.IntRange(lo+1, to).Draw(t, "piece")
				got := r.nll(lo, hi)
				pieces.Mix(three, r.rows(from, hi), r.next[from:hi], got)
				require.Equal(t, want[lo-from:hi-from], got)
				lo = hi
			}
			tolerance := 1e-5 + 2e-4*float64(set.Theta)
			for at := from; at < to; at++ {
				p := r.mixture(set, whole.Warm, at)
				all := append([]float32(nil), r.logProbs[at]...)
				whole.MixAll(one, r.rows(from, at+1), r.next[from:at], all)
				sum := 0.
				for w := range all {
					sum += math.Exp(float64(all[w]))
					require.InDelta(t, p[w], math.Exp(float64(all[w])), tolerance,
						"position %d, symbol %d", at, w)
				}
				require.InDelta(t, 1, sum, 2e-6, "position %d", at)
				require.Equal(t, -all[r.next[at]], want[at-from], "position %d", at)
			}
			whole.Append(r.rows(from, to), r.next[from:to])
			pieces.Append(r.rows(from, to), r.next[from:to])
			require.Equal(t, min(to, set.Size), whole.Len)
		}
		require.Equal(t, whole.Hash(), pieces.Hash())
		require.Equal(t, r.rows(n-whole.Len, n), whole.Keys[:whole.Len*r.width], "the last ones")
		require.Equal(t, r.next[n-whole.Len:], whole.Next[:whole.Len])
	})
}

func (r *reading) nll(lo, hi int) (nll []float32) {
	for i := lo; i < hi; i++ {
		nll = append(nll, -r.logProbs[i][r.next[i]])
	}
	return nll
}

func TestCopyOfCacheIsIndependent(t *testing.T) {
	set := CacheSettings{Size: 3, Theta: 1, Lambda: 0.5}
	c := NewCache(set, 2)
	c.Append([]float32{1, 2, 3, 4}, []int32{7, 8})
	before := c.Hash()
	twin := c.Copy()
	require.Equal(t, before, twin.Hash())
	twin.Append([]float32{5, 6, 7, 8}, []int32{9, 10})
	require.Equal(t, before, c.Hash())
	require.Equal(t, []int32{8, 9, 10}, twin.Next)
	require.Equal(t, []float32{3, 4, 5, 6, 7, 8}, twin.Keys)
}

// If network and cache are both certain of a token, the rounded probabilities may sum to more than
// 1. The token's cost must still not be negative.
func TestNoTokenCostsLessThanNothing(t *testing.T) {
	x := exec(t, 1)
	c := NewCache(CacheSettings{Size: 8, Theta: 1, Lambda: 0.9}, 1)
	c.Append([]float32{0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7}, make([]int32, 7))
	for n := range 100 {
		hidden, nll, logProbs := []float32{float32(n) / 100}, []float32{0}, []float32{0}
		c.Mix(x, hidden, []int32{0}, nll)
		c.MixAll(x, hidden, nil, logProbs)
		require.GreaterOrEqual(t, nll[0], float32(0), "state %v", hidden)
		require.Equal(t, nll[0], -logProbs[0])
	}
}

// Huge states and a huge theta still give a distribution: the most similar position gets all of
// the probability.
func TestCacheDoesNotOverflow(t *testing.T) {
	c := NewCache(CacheSettings{Size: 8, Theta: CacheThetaMax, Lambda: 0.5}, 2)
	c.Append([]float32{1e15, 0, -1e15, 0, 0, 1e15}, []int32{0, 1, 2})
	logProbs := []float32{float32(math.Log(0.5)), float32(math.Log(0.25)), float32(math.Log(0.25)),
		-1e30}
	c.MixAll(exec(t, 1), []float32{1e15, 0}, nil, logProbs)
	for w, want := range []float64{0.75, 0.125, 0.125, 0} {
		require.InDelta(t, want, math.Exp(float64(logProbs[w])), 1e-6)
	}
}

func TestWarmCacheAllocatesNothing(t *testing.T) {
	x := exec(t, 2)
	const n, width = 40, 8
	c := NewCache(CacheSettings{Size: 100, Theta: 1, Lambda: 0.5}, width)
	hidden, next, nll, all := gradients(n*width, 1), make([]int32, n), make([]float32, n),
		make([]float32, 5)
	work := func() {
		c.Mix(x, hidden, next, nll)
		c.MixAll(x, hidden, next[:n-1], all)
		c.Append(hidden, next)
	}
	work()
	require.Zero(t, testing.AllocsPerRun(20, work))
}

func TestCacheSettingsOutOfRangeAreNamed(t *testing.T) {
	require.NoError(t, DefaultCacheSettings().Validate())
	for field, s := range map[string]CacheSettings{
		"size": {}, "theta": {Size: 1, Theta: -1}, "lambda": {Size: 1, Lambda: 1},
	} {
		var wrong *SettingError
		require.ErrorAs(t, s.Validate(), &wrong)
		require.Equal(t, field, wrong.Field)
	}
	require.Error(t, CacheSettings{Size: CacheSizeMax + 1}.Validate())
	require.Error(t, CacheSettings{Size: 1, Theta: CacheThetaMax + 1}.Validate())
}
