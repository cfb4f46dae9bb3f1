package stream

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// skipping returns a stream that learns only chunks with a network cost of at least `below` bits
// per token.
func skipping(t *testing.T, below float64) *Stream {
	m := testModel(t)
	return New(m, settings(m, func(s *Settings) { s.Companion, s.SkipBelow = true, below }))
}

// networks feeds a text and returns the costs of its tokens under the network alone, in nats.
func networks(w *Worker, s *Stream, text string) (nll []float32) {
	w.Feed(s, []byte(text), func(_ []byte, scores Scores) { nll = append(nll, scores.Network...) })
	return nll
}

func TestChunksThatCostLittleAreNotLearnedFrom(t *testing.T) {
	m := testModel(t)
	w := testWorker(t, m, 1)
	static := New(m, settings(m, func(s *Settings) { s.Method, s.Companion = Static, false }))
	require.Equal(t, scored(w, static, text), networks(w, skipping(t, 32), text),
		"nothing is learnt")

	// bits per token; key true: learned chunks, key false: skipped chunks
	costs := map[bool][]float64{}
	const below = 8
	s := skipping(t, below)
	for rest := text; len(rest) >= testChunk; rest = rest[testChunk:] {
		bits := AddBits(0, networks(w, s, rest[:testChunk]))
		learnt := s.Written > 0
		costs[learnt] = append(costs[learnt], bits/testChunk)
	}
	require.NotEmpty(t, costs[true])
	require.NotEmpty(t, costs[false])
	require.EqualValues(t, len(costs[true])+len(costs[false]), s.Updates(), "skipped chunks count")
	for learnt, of := range costs {
		for _, bits := range of {
			require.Equal(t, bits >= below, learnt, bits)
		}
	}
}

func TestWithoutCompanionEveryChunkIsLearnedFrom(t *testing.T) {
	m := testModel(t)
	w := testWorker(t, m, 1)
	of := func(below float64) *Stream {
		return New(m, settings(m, func(s *Settings) { s.Companion, s.SkipBelow = false, below }))
	}
	require.Equal(t, scored(w, of(0), text), scored(w, of(32), text))
}
