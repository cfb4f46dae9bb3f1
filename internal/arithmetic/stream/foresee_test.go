package stream

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Settle must learn from the gradient of the accepted text, whatever happens after Foresee. The
// scored text may be dropped, another text may be accepted, or the worker may serve another stream.
func TestForeseenGradientIsThatOfAcceptedText(t *testing.T) {
	m := mixtureModel(t, testModel(t), 0.7)
	w, plain := testWorker(t, m, 1), testWorker(t, m, 1)
	kinds := []func(*Settings){
		methodIs(SparseMeta), methodIs(DynamicRMS), methodIs(Static), methodIs(Cache),
		func(s *Settings) { s.Companion = false }, func(s *Settings) { s.SkipBelow = 8 },
		func(s *Settings) { s.Baseline = true },
	}
	rapid.Check(t, func(t *rapid.T) {
		set := settings(m, rapid.SampledFrom(kinds).Draw(t, "kind"))
		s, want, other := New(m, set), New(m, set), New(m, set)
		byLine := rapid.IntRange(0, 3).Draw(t, "by line") == 0 && LearnsByLine(set.Method)
		for rest := []byte(text); len(rest) > 0; {
			piece := rest[:rapid.IntRange(1, min(len(rest), 3*testChunk)).Draw(t, "bytes")]
			score := func(s *Stream, text []byte) Scores {
				scores := w.ScoreAs(s, text, Lesson{ByLine: byLine})
				if rapid.Bool().Draw(t, "foresee") {
					w.Foresee(s, scores)
				}
				return scores
			}
			switch rapid.IntRange(0, 4).Draw(t, "between") {
			case 0:
				score(s, []byte("a text that is not accepted after all"))
			case 1:
				w.Commit(other, score(other, piece))
				w.Settle(other)
			}
			scores := score(s, piece)
			if rapid.IntRange(0, 4).Draw(t, "loses the worker") == 0 {
				score(other, piece)
				scores = score(s, piece)
			}
			rest = rest[len(scores.Text):]
			w.Commit(s, scores)
			w.Settle(s)
		}
		feedAs(plain, want, text, Lesson{ByLine: byLine})
		require.Equal(t, want.Hash(), s.Hash())
	})

	set := settings(m, methodIs(SparseMeta))
	s, want := New(m, set), New(m, set)
	for rest := text[:4*testChunk]; len(rest) > 0; rest = rest[testChunk:] {
		scores := w.Score(s, []byte(rest[:testChunk]))
		require.True(t, w.Foresee(s, scores))
		w.Commit(s, scores)
		w.Settle(s)
	}
	plain.Feed(want, []byte(text[:4*testChunk]), nil)
	require.Equal(t, want.Hash(), s.Hash())
}

func TestForeseeingChangesNothingAndAllocatesNothing(t *testing.T) {
	m := mixtureModel(t, testModel(t), 0.7)
	w, s := testWorker(t, m, 1), New(m, settings(m, methodIs(SparseMeta)))
	w.Feed(s, []byte(text[:3*testChunk+1]), nil)
	before := s.Hash()
	scores := w.Score(s, []byte(text[:testChunk]))
	require.True(t, w.Foresee(s, scores))
	require.Equal(t, before, s.Hash())
	require.Zero(t, testing.AllocsPerRun(10, func() { w.Foresee(s, scores) }))
	require.False(t, w.Foresee(s, w.Score(s, []byte(text[:testChunk/2]))), "the chunk is not full")
}
