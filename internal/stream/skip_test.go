package stream

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A chunk is learnt from if it costs the network SkipBelow or more, and whether it is depends on
// the chunk alone.
func TestChunksThatCostLittleAreNotLearntFrom(t *testing.T) {
	m := testModel(t)
	w := testWorker(t, m, 1)
	of := func(below float64) *Stream {
		return New(m, settings(m, func(s *Settings) { s.Companion, s.SkipBelow = false, below }))
	}
	static := New(m, settings(m, func(s *Settings) { s.Method, s.Companion = Static, false }))
	require.Equal(t, scored(w, static, text), scored(w, of(32), text), "nothing is learnt")

	costs := map[bool][]float64{} // bits a token, by whether the chunk was learnt from
	const below = 8
	s := of(below)
	for rest := text; len(rest) >= testChunk; rest = rest[testChunk:] {
		before := s.Tally.Bits
		w.Feed(s, []byte(rest[:testChunk]), nil)
		learnt := s.Written > 0
		costs[learnt] = append(costs[learnt], (s.Tally.Bits-before)/testChunk)
	}
	require.NotEmpty(t, costs[true])
	require.NotEmpty(t, costs[false])
	for learnt, of := range costs {
		for _, bits := range of {
			require.Equal(t, bits >= below, learnt, bits)
		}
	}
}
