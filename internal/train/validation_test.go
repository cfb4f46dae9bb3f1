package train

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/model/modeltest"
	"github.com/lmserve/lmserve/internal/stream"
	"github.com/lmserve/lmserve/internal/train/corpus"
	"github.com/lmserve/lmserve/tokenizer"
)

// Validation measures what sessions would: document by document, or all of them as one text.
func TestValidationIsServing(t *testing.T) {
	m, err := modeltest.Small()
	require.NoError(t, err)
	c := &corpus.Corpus{Documents: []corpus.Document{
		corpus.NewDocument("a", []byte("the first text, which ends within a chunk of it")),
		corpus.NewDocument("b", []byte("and the second one")),
	}}
	for _, one := range []bool{false, true} {
		v := &validator{c, ValidationOptions{OneStream: one}, 5, 2}
		measured, err := v.measure(context.Background(), m, nil)
		require.NoError(t, err)

		set := stream.Defaults(m)
		set.Seed, set.Baseline = 5, true
		w := stream.NewWorker(m, 1)
		defer w.Close()
		var adaptive, static tokenizer.Tally
		s := stream.New(m, set)
		for _, d := range c.Documents {
			w.Feed(s, d.Text, nil)
			if !one {
				adaptive.Add(s.Tally)
				static.Add(s.Baseline)
				s = stream.New(m, set)
			}
		}
		adaptive.Add(s.Tally)
		static.Add(s.Baseline)
		require.Equal(t, static.BitsPerChar(), measured.Static)
		require.Equal(t, adaptive.BitsPerChar(), *measured.Adaptive)
		require.NotEqual(t, measured.Static, *measured.Adaptive)

		known := 1.5
		again, err := v.measure(context.Background(), m, &known)
		require.NoError(t, err)
		require.Equal(t, known, again.Static)
		require.Equal(t, measured.Adaptive, again.Adaptive)
	}
}
