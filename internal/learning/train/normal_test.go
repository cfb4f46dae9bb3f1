package train

import (
	"context"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/learning/train/corpus"
	"github.com/lmserve/lmserve/sparsemeta"
	"github.com/lmserve/lmserve/weights"
)

// withStatistics pretrains a model of words, adds statistics of its gradients, and returns the path
// of the model's file.
func withStatistics(t *testing.T) string {
	m, err := model.Load(pretrainedWords(t))
	require.NoError(t, err)
	text, err := corpus.Load(t.Context(), WriteText(t, 3000), 0)
	require.NoError(t, err)
	x := kernel.NewExec(1)
	defer x.Close()
	rms, err := GradientRMS(context.Background(), x, m, text, 20, 8, 1, nil)
	require.NoError(t, err)
	m, err = m.WithStatistics(rms)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "measured.safetensors")
	require.NoError(t, weights.WriteFile(path, m.File(), weights.WriteOptions{}))
	return path
}

func normalizedRun(t *testing.T) Options {
	o := tinyWordsMeta(t, SchemeOnline)
	o.Tokenizer, o.Model.NLayer = TokenizerOptions{}, 0
	o.Phases, o.Init = []string{PhaseMeta}, withStatistics(t)
	normal := sparsemeta.DefaultNormal()
	o.Meta.Normal, o.Valid = &normal, ValidNone
	return o
}

func TestMetaLearnersAreTrainedOnNormalizedGradients(t *testing.T) {
	o := normalizedRun(t)
	o.Out = filepath.Join(t.TempDir(), "m.safetensors")
	_, err := Run(context.Background(), o)
	require.NoError(t, err)
	before, err := model.Load(o.Init)
	require.NoError(t, err)
	first, err := model.Load(o.Out)
	require.NoError(t, err)
	require.Equal(t, o.Meta.Normal, first.Learner.Normal)
	require.Equal(t, before.Statistics, first.Statistics, "the trained model keeps them")

	plain := o
	plain.Meta.Normal, plain.Out = nil, filepath.Join(t.TempDir(), "plain.safetensors")
	_, err = Run(context.Background(), plain)
	require.NoError(t, err)
	other, err := model.Load(plain.Out)
	require.NoError(t, err)
	require.Nil(t, other.Learner.Normal)
	require.Nil(t, other.Statistics)
	require.False(t, reflect.DeepEqual(first.Learner.Phi, other.Learner.Phi))

	o.Init, o.Meta.Normal, o.Out = o.Out, nil, filepath.Join(t.TempDir(), "further.safetensors")
	_, err = Run(context.Background(), o)
	require.NoError(t, err)
	further, err := model.Load(o.Out)
	require.NoError(t, err)
	require.Equal(t, first.Learner.Normal, further.Learner.Normal)
	require.Equal(t, first.Learner.Scale, further.Learner.Scale)
	o.Meta.Normal = &sparsemeta.Normal{Level: 1, Floor: 1}
	told := &recorder{}
	o.Observer = told
	_, err = Run(context.Background(), o)
	require.NoError(t, err)
	require.Contains(t, told.notes(), learnerRenewed)

	o.Meta.Normal, o.Model = nil, first.LM.Config
	o.Model.UntieSoftmax = true
	_, err = Run(context.Background(), o)
	require.NoError(t, err)
	require.Contains(t, told.notes(), "are dropped: their gradient statistics do not fit the "+
		"weights after pretraining or with untie_softmax")
}

func TestRunOnNormalizedGradientsResumes(t *testing.T) {
	o := normalizedRun(t)
	o.Valid = WriteText(t, 200)
	requireSameResult(t, o, 1, 3)
}

// Gradient statistics only fit the slow weights with which they were measured.
func TestNormalizingNeedsStatisticsOfTheSameWeights(t *testing.T) {
	refused := func(change func(*Options)) {
		o := normalizedRun(t)
		change(&o)
		_, err := Run(context.Background(), o)
		require.ErrorContains(t, err, "Meta.Normal is true, expected false, or an initial "+
			"model with gradient statistics (see lmserve tune --statistics)")
	}
	refused(func(o *Options) { o.Init = pretrainedWords(t) })
	refused(func(o *Options) { o.Phases = []string{PhasePretrain, PhaseMeta} })
	refused(func(o *Options) {
		o.Init, o.Model, o.Phases = "", tinyClusters, []string{PhasePretrain, PhaseMeta}
	})
	refused(func(o *Options) { o.Model = tinyClusters; o.Model.UntieSoftmax = true })
	o := normalizedRun(t)
	o.Meta.Normal = &sparsemeta.Normal{Level: -1, Floor: 1}
	_, err := Run(context.Background(), o)
	require.ErrorContains(t, err, "option Meta.Normal: sparsemeta: normal: level: found -1")
}
