package stream

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
)

func diverging(t *rapid.T, m *model.Model) Settings {
	set := anySettings(t, m)
	set.Method = rapid.SampledFrom([]string{SparseMeta, DynamicSGD, DynamicRMS}).Draw(t, "method")
	set.SkipBelow = 0
	set.SGD.Rate, set.RMS.Rate = 1e6, 1e6
	set.Adapt.Out = float32(math.Pow(10, rapid.Float64Range(4, 30).Draw(t, "out")))
	return set
}

func TestDivergenceResetsFastWeights(t *testing.T) { eachModel(t, divergenceResets) }

func divergenceResets(t *testing.T, m *model.Model) {
	w, other := testWorker(t, m, 1), testWorker(t, m, 2)
	rapid.Check(t, func(t *rapid.T) {
		set := diverging(t, m)
		whole := New(m, set)
		want := scored(w, whole, text)
		for i, nats := range want {
			require.LessOrEqual(t, nats, float32(tokenNatsMax), "token %d", i)
		}
		s := New(m, set)
		var got []float32
		for _, piece := range pieces(t, text) {
			got = append(got, scored(w, s, piece)...)
			if rapid.Bool().Draw(t, "through a file") && finite(s) {
				s = restored(t, m, set, snapshotBytes(t, s))
				w, other = other, w
			}
		}
		require.Equal(t, want, got)
		if finite(whole) { // NaN has many bit patterns, so hashes may differ
			require.Equal(t, whole.Hash(), s.Hash())
		}
		require.Equal(t, whole.Divergence, s.Divergence)
	})
	requireDivergence(t, w, m)
}

// If the fast weights diverge while a frozen copy reads a prompt, the resumed copy has no fast
// weights.
func TestShelvedDivergenceIsResumed(t *testing.T) { eachModel(t, shelvedDivergence) }

func shelvedDivergence(t *testing.T, m *model.Model) {
	w := testWorker(t, m, 1)
	for _, method := range []string{DynamicSGD, DynamicRMS} {
		s := New(m, settings(m, func(set *Settings) {
			set.Method, set.SGD.Rate, set.RMS.Rate, set.Chunk = method, 1e6, 1e6, 8
		}))
		w.Feed(s, []byte(text[:8]), nil)
		read := s.Frozen()
		w.Feed(read, []byte(text[8:32]), nil)
		require.Positive(t, read.Divergence.Count)
		require.Zero(t, s.Divergence.Count)
		resumed := s.Resumed(read.Shelved())
		require.Equal(t, scored(w, read, text[32:]), scored(w, resumed, text[32:]))
	}
}

// Tokens that the same byte completes are scored together. Otherwise a token could be accepted
// without a byte of text, and the pending tokens would depend on how the text is split.
func TestDivergenceInWordsKeepsTokensTogether(t *testing.T) {
	eachWordModel(t, divergenceKeepsTokensTogether)
}

func divergenceKeepsTokensTogether(t *testing.T, m *model.Model) {
	w := testWorker(t, m, 1)
	rapid.Check(t, func(t *rapid.T) {
		set := diverging(t, m)
		set.Chunk = rapid.IntRange(ChunkMin(m), 2*ChunkMin(m)).Draw(t, "chunk")
		text := drawWordText(t)
		feed := func(s *Stream, text string) (nll []float32) {
			w.Feed(s, []byte(text), func(text []byte, scores Scores) {
				require.NotEmpty(t, text)
				for _, nats := range scores.NLL {
					require.True(t, nats >= 0 && nats <= tokenNatsMax, "%v", nats)
				}
				nll = append(nll, scores.NLL...)
			})
			return nll
		}
		whole, s := New(m, set), New(m, set)
		want := feed(whole, text)
		var got []float32
		for _, piece := range cutUp(t, text) {
			got = append(got, feed(s, piece)...)
			if rapid.Bool().Draw(t, "through a file") && finite(s) {
				s = restored(t, m, set, snapshotBytes(t, s))
			}
		}
		require.Equal(t, want, got)
		require.Equal(t, whole.Divergence, s.Divergence)
	})
	requireDivergence(t, w, m)
}

func requireDivergence(t *testing.T, w *Worker, m *model.Model) {
	s := New(m, settings(m, func(set *Settings) {
		set.Method, set.SGD.Rate, set.Chunk = DynamicSGD, 1e6, ChunkMin(m)
	}))
	w.Feed(s, []byte(strings.Repeat("the cat sat on the mat, and the dog did not.\n", 20)), nil)
	require.Positive(t, s.Divergence.Count)
}

func finite(s *Stream) bool { return !math.IsNaN(s.FastRMS() - s.FastRMS()) }
