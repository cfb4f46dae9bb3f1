package stream

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// skipping is a stream with a companion that learns from chunks of so many bits a token or more.
func skipping(t *testing.T, below float64) *Stream {
	m := testModel(t)
	return New(m, settings(m, func(s *Settings) { s.Companion, s.SkipBelow = true, below }))
}

// networks feeds a text, and gives what its tokens cost the network without the companion.
func networks(w *Worker, s *Stream, text string) (nll []float32) {
	w.Feed(s, []byte(text), func(_ []byte, scores Scores) { nll = append(nll, scores.Network...) })
	return nll
}

// A chunk is learnt from if it costs the network SkipBelow or more, and whether it is depends on
// the chunk alone.
func TestChunksThatCostLittleAreNotLearntFrom(t *testing.T) {
	m := testModel(t)
	w := testWorker(t, m, 1)
	static := New(m, settings(m, func(s *Settings) { s.Method, s.Companion = Static, false }))
	require.Equal(t, scored(w, static, text), networks(w, skipping(t, 32), text),
		"nothing is learnt")

	costs := map[bool][]float64{} // bits a token, by whether the chunk was learnt from
	const below = 8
	s := skipping(t, below)
	for rest := text; len(rest) >= testChunk; rest = rest[testChunk:] {
		bits := AddBits(0, networks(w, s, rest[:testChunk]))
		learnt := s.Written > 0
		costs[learnt] = append(costs[learnt], bits/testChunk)
	}
	require.NotEmpty(t, costs[true])
	require.NotEmpty(t, costs[false])
	for learnt, of := range costs {
		for _, bits := range of {
			require.Equal(t, bits >= below, learnt, bits)
		}
	}
}

// Without a companion that has counted a chunk all the same, every chunk is learnt from.
func TestWithoutACompanionEveryChunkIsLearntFrom(t *testing.T) {
	m := testModel(t)
	w := testWorker(t, m, 1)
	of := func(below float64) *Stream {
		return New(m, settings(m, func(s *Settings) { s.Companion, s.SkipBelow = false, below }))
	}
	require.Equal(t, scored(w, of(0), text), scored(w, of(32), text))
}
