package stream

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestCostsAreThoseOfACopyThatReads(t *testing.T) {
	m := upperModel(t)
	w := testWorker(t, m, 2)
	rapid.Check(t, func(t *rapid.T) {
		s := New(m, suggesting(t, m))
		w.Feed(s, []byte(text[:rapid.IntRange(0, 90).Draw(t, "fed")]), nil)
		before, k := s.Hash(), new(Suggester)
		var texts [][]byte
		for range rapid.IntRange(1, 4).Draw(t, "texts") {
			from := rapid.IntRange(0, 60).Draw(t, "from")
			to := min(len(text), from+rapid.IntRange(0, 60).Draw(t, "bytes"))
			texts = append(texts, []byte(text[from:to]))
		}
		texts = append(texts, append(texts[0][:len(texts[0]):len(texts[0])], " and more"...))
		for range 2 {
			nats, _, err := w.Costs(context.Background(), s, k, texts)
			require.NoError(t, err)
			for i, one := range texts {
				want := 0.
				w.Feed(s.Frozen(), one, func(_ []byte, scores Scores) {
					for _, nll := range scores.NLL {
						want += float64(nll)
					}
				})
				require.InDelta(t, want, nats[i], 1e-4*max(1, want), "%q", one)
			}
		}
		require.Equal(t, before, s.Hash(), "the stream is as it was")
	})
}

func TestCostsEndWithTheContext(t *testing.T) {
	m := upperModel(t)
	w, s := testWorker(t, m, 1), New(m, settings(m, nil))
	w.Feed(s, []byte(text[:50]), nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	before := s.Hash()
	_, rows, err := w.Costs(ctx, s, new(Suggester), [][]byte{[]byte("GET"), []byte("POST")})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 1, rows, "the end of the text alone")
	require.Equal(t, before, s.Hash(), "the stream is as it was")
}
