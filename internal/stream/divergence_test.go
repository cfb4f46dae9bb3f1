package stream

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lmserve/lmserve/internal/model"
)

// diverging draws settings whose updates make the weights useless.
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
	count := int64(0)
	rapid.Check(t, func(t *rapid.T) {
		set := diverging(t, m)
		whole := New(m, set)
		want := scored(w, whole, text)
		count += whole.Divergence.Count
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
		if finite(whole) { // the bits of a NaN are any
			require.Equal(t, whole.Hash(), s.Hash())
		}
		require.Equal(t, whole.Divergence, s.Divergence)
	})
	require.Positive(t, count)
}

func finite(s *Stream) bool { return !math.IsNaN(s.FastRMS() - s.FastRMS()) }
