package tune

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/lab/eval"
	"github.com/lmserve/lmserve/txl"
)

func small(t *testing.T) *model.Model {
	lm, err := txl.NewModel(txl.Config{NLayer: 1, DModel: 8, NHead: 2, DHead: 4, DInner: 8,
		Vocab: 256, SegLen: 8, MemLen: 8})
	require.NoError(t, err)
	lm.Init(1)
	m, err := model.New("small", lm, nil, 8, nil)
	require.NoError(t, err)
	rms := make([]float32, len(lm.W))
	for i := range rms {
		rms[i] = 0.01
	}
	m, err = m.WithStatistics(rms)
	require.NoError(t, err)
	return m
}

func TestTuningMakesTheModelsDefaultsBetter(t *testing.T) {
	m := small(t)
	texts := [][]byte{[]byte(strings.Repeat("all work and no play ", 20)),
		[]byte(strings.Repeat("0101", 50))}
	w := stream.NewWorker(m, 1)
	defer w.Close()
	score := func(m *model.Model, method string) float64 {
		set := stream.DefaultsFor(m, method)
		set.Companion = false
		bits, err := eval.BitsPerToken(t.Context(), w, m, set, texts)
		require.NoError(t, err)
		return bits
	}
	for _, method := range Methods() {
		var trials []Trial
		tuned, best, err := Method(t.Context(), m, method, texts, 2,
			func(t Trial) { trials = append(trials, t) })
		require.NoError(t, err)
		require.Equal(t, score(m, method), trials[0].Score, "%s starts where the model is", method)
		require.Less(t, best.Score, trials[0].Score, method)
		require.Equal(t, best.Score, score(tuned, method), method)
		require.NotEqual(t, m.Hash(), tuned.Hash())
		for _, other := range Methods() {
			if other != method {
				require.Equal(t, score(m, other), score(tuned, other), "%s stays as it was", other)
			}
		}
	}
}

func TestWhatCannotBeTunedIsNamed(t *testing.T) {
	m := small(t)
	_, _, err := Method(t.Context(), m, stream.Static, nil, 1, nil)
	require.ErrorContains(t, err, `method is "static", expected one of`)
	plain, err := model.New("plain", m.LM, nil, 8, nil)
	require.NoError(t, err)
	_, _, err = Method(t.Context(), plain, stream.DynamicRMS, nil, 1, nil)
	require.ErrorContains(t, err, "no gradient statistics")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err = Method(ctx, m, stream.Cache, [][]byte{[]byte("text")}, 1, nil)
	require.ErrorIs(t, err, context.Canceled)
}
