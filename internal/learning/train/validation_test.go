package train

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/model/modeltest"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/learning/train/corpus"
	"github.com/lmserve/lmserve/tokenizer"
)

// Validation has the same results as sessions: for bytes and words, with and without a companion,
// document by document and for all documents as one text.
func TestValidationIsServing(t *testing.T) {
	texts := []string{modeltest.WordText(9), modeltest.WordText(5) + "and one more"}
	for _, made := range []func() (*model.Model, error){modeltest.Small, modeltest.SmallOfWords} {
		m, err := made()
		require.NoError(t, err)
		c := &corpus.Corpus{}
		for _, text := range texts {
			c.Documents = append(c.Documents, corpus.NewDocument("a", []byte(text)))
		}
		if m.OfWords() {
			require.NoError(t, c.Encode(m.Tokenizer, func(int) error { return nil }))
		}
		for _, one := range []bool{false, true} {
			v := &validator{text: c, options: ValidationOptions{OneStream: one}, seed: 5,
				threads: 2}
			measured, err := v.measure(context.Background(), m, nil)
			require.NoError(t, err)
			adaptive, static := served(m, texts, one, stream.SparseMeta, false)
			require.Equal(t, static.Bits/float64(static.Tokens), measured.Static)
			require.Equal(t, adaptive.Bits/float64(adaptive.Tokens), *measured.Adaptive)
			require.NotEqual(t, measured.Static, *measured.Adaptive)
			require.False(t, measured.Companion)
			if m.OfWords() {
				count := &WordCount{Tokens: int(static.Tokens), Unknown: int(static.Unknown)}
				require.Equal(t, count, measured.Words)
			}

			known := 1.5
			again, err := v.measure(context.Background(), m, &known)
			require.NoError(t, err)
			require.Equal(t, known, again.Static)
			require.Equal(t, measured.Adaptive, again.Adaptive)
			if m.OfWords() {
				continue
			}
			v.companion = true
			for _, m.Mixture = range []float32{0, .6} {
				measured, err := v.measure(context.Background(), m, nil)
				require.NoError(t, err)
				adaptive, _ := served(m, texts, one, stream.SparseMeta, true)
				require.Equal(t, adaptive.Bits/float64(adaptive.Tokens), *measured.Adaptive)
				static, _ := served(m, texts, one, stream.Static, true)
				require.Equal(t, static.Bits/float64(static.Tokens), measured.Static)
				require.True(t, measured.Companion)
				require.Contains(t, measured.String(), "(with companion)")
			}
			m.Mixture = 0
		}
	}
}

// served scores texts as a server does, with seed 5: as separate streams, or as one stream if the
// parameter `one` is true.
func served(
	m *model.Model, texts []string, one bool, method string, companion bool,
) (adaptive, static tokenizer.Tally) {
	set := stream.DefaultsFor(m, method)
	set.Seed, set.Baseline, set.Companion = 5, true, companion
	w := stream.NewWorker(m, 1)
	defer w.Close()
	s := stream.New(m, set)
	for _, text := range texts {
		w.Feed(s, []byte(text), nil)
		w.End(s, nil)
		if !one {
			adaptive.Add(s.Tally)
			static.Add(s.Baseline)
			s = stream.New(m, set)
		}
	}
	adaptive.Add(s.Tally)
	static.Add(s.Baseline)
	return adaptive, static
}
