package model

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/sparsemeta"
	"github.com/lmserve/lmserve/weights"
)

func measured(t *testing.T) *Model {
	m := small(t)
	rms := make([]float32, len(m.LM.W))
	for i := range rms {
		rms[i] = float32(i%100) * 1e-4
	}
	m, err := m.WithStatistics(rms)
	require.NoError(t, err)
	m, err = m.WithRivals(Rivals{
		SGD:   sparsemeta.DynamicSettings{Rate: 0.5, Decay: 0.25},
		RMS:   sparsemeta.DynamicSettings{Rate: 0.125, Decay: 0, Floor: 2},
		Cache: sparsemeta.CacheSettings{Size: 9, Theta: 3, Lambda: 0.75},
	})
	require.NoError(t, err)
	return m
}

func TestStatisticsAndRivalsSurviveTheFile(t *testing.T) {
	plain, m := small(t), measured(t)
	require.Nil(t, plain.Statistics, "the model they were added to is as it was")
	require.Equal(t, DefaultRivals(), plain.Rivals)
	require.NotEqual(t, plain.Hash(), m.Hash(), "another model")
	path := filepath.Join(t.TempDir(), "m.safetensors")
	require.NoError(t, weights.WriteFile(path, m.File(), weights.WriteOptions{Zstd: 3}))
	back, err := Load(path)
	require.NoError(t, err)
	require.Equal(t, m.Statistics, back.Statistics)
	require.Equal(t, m.Rivals, back.Rivals)
	require.Equal(t, m.ID(), back.ID())
	require.Equal(t, m.Learner, back.Learner)
}

// A file omits absent statistics and default Rivals, so that the hashes of older models stay valid.
func TestModelWithoutStatisticsHasNone(t *testing.T) {
	f := small(t).File()
	for _, tensor := range f.Tensors {
		require.False(t, strings.HasPrefix(tensor.Name, "gradient."), tensor.Name)
	}
	require.NotContains(t, f.Metadata, keyRivals)
	m, err := FromFile(f)
	require.NoError(t, err)
	require.Nil(t, m.Statistics)
	require.Equal(t, DefaultRivals(), m.Rivals)
}

func TestWhatAFileDoesNotSayOfTheRivalsIsTheDefault(t *testing.T) {
	f := small(t).File()
	f.Metadata[keyRivals] = `{"dynamic_rms":{"rate":0.25},"cache":{"lambda":0.5}}`
	m, err := FromFile(f)
	require.NoError(t, err)
	want := DefaultRivals()
	want.RMS.Rate, want.Cache.Lambda = 0.25, 0.5
	require.Equal(t, want, m.Rivals)
}

func TestStatisticsAndRivalsThatCannotBeAreRefused(t *testing.T) {
	for want, spoil := range map[string]func(*weights.File){
		`"gradient.rms.r_w_bias" is missing`: func(f *weights.File) {
			i := tensorAt(f, "gradient.rms.r_w_bias")
			f.Tensors = slices.Delete(f.Tensors, i, i+1)
		},
		// Only the first weight has no statistics.
		"tensors, but the configuration": func(f *weights.File) {
			i := tensorAt(f, "gradient.rms.word_emb.emb_layers.0.weight")
			f.Tensors = slices.Delete(f.Tensors, i, i+1)
		},
		`"gradient.scale.r_w_bias" is missing`: func(f *weights.File) {
			i := tensorAt(f, "gradient.scale.r_w_bias")
			f.Tensors = slices.Delete(f.Tensors, i, i+1)
		},
		"has dtype BF16, expected U8": func(f *weights.File) {
			i := tensorAt(f, "gradient.rms.r_w_bias")
			f.Tensors[i] = weights.BF16Tensor(f.Tensors[i].Name, f.Tensors[i].Shape,
				make([]float32, f.Tensors[i].Elements()))
		},
		`"gradient.rms.crit.out_layers.0.bias" has shape`: func(f *weights.File) {
			f.Tensors[tensorAt(f, "gradient.rms.crit.out_layers.0.bias")].Shape = []int{16, 16}
		},
		`"gradient.scale.r_w_bias" has shape [2]`: func(f *weights.File) {
			f.Tensors[tensorAt(f, "gradient.scale.r_w_bias")] =
				weights.F32Tensor("gradient.scale.r_w_bias", []int{2}, []float32{1, 1})
		},
		`"gradient.scale.r_w_bias", element 0 is NaN`: func(f *weights.File) {
			copy(f.Tensors[tensorAt(f, "gradient.scale.r_w_bias")].Data, []byte{0, 0, 0xc0, 0x7f})
		},
		"r_w_bias: scale: found -1": func(f *weights.File) {
			copy(f.Tensors[tensorAt(f, "gradient.scale.r_w_bias")].Data, []byte{0, 0, 0x80, 0xbf})
		},
		"want 0, because the scale is 0": func(f *weights.File) {
			copy(f.Tensors[tensorAt(f, "gradient.scale.r_w_bias")].Data, []byte{0, 0, 0, 0})
		},
		"lmserve.rivals: json: unknown field": func(
			f *weights.File) {
			f.Metadata[keyRivals] = `{"sgd":{}}`
		},
		"lmserve.rivals: cache: sparsemeta: settings: size": func(
			f *weights.File) {
			f.Metadata[keyRivals] = `{"cache":{"size":0}}`
		},
		"lmserve.rivals: unexpected EOF": func(f *weights.File) {
			f.Metadata[keyRivals] =
				`{`
		},
		"dynamic_sgd: sparsemeta: settings: decay": func(f *weights.File) {
			f.Metadata[keyRivals] =
				`{"dynamic_sgd":{"decay":2}}`
		},
	} {
		f := measured(t).File()
		spoil(f)
		_, err := FromFile(f)
		require.ErrorContains(t, err, want)
	}
	_, err := small(t).WithStatistics([]float32{1})
	require.ErrorContains(t, err, "found 1 root mean squares")
	bad := DefaultRivals()
	bad.RMS.Floor = float32(math.NaN())
	_, err = small(t).WithRivals(bad)
	require.ErrorContains(t, err, "dynamic_rms")
}

func normalized(t *testing.T) *Model {
	m := measured(t)
	l := *m.Learner
	require.NoError(t, l.Normalize(sparsemeta.DefaultNormal(), m.Statistics))
	n := m.with(func(m *Model) { m.Learner = &l })
	return n
}

func TestModelKeepsStatisticsOfItsMetaLearners(t *testing.T) {
	m := normalized(t)
	got, err := FromFile(m.File())
	require.NoError(t, err)
	require.Equal(t, m.Learner, got.Learner)
	require.Equal(t, m.Hash(), got.Hash())
	require.NotEqual(t, measured(t).Hash(), m.Hash())
	_, err = m.WithStatistics(make([]float32, m.LM.Layout.Size))
	require.ErrorIs(t, err, ErrStatisticsInUse)

	for want, normal := range map[string]string{
		"adapt: sparsemeta: normal: level": `{"level":0,"floor":1}`,
		"unknown field":                    `{"level":1,"floor":1,"size":1}`,
	} {
		f := m.File()
		f.Metadata[keyAdapt] = strings.Replace(f.Metadata[keyAdapt], `{"level":0.1,"floor":0.3}`,
			normal, 1)
		_, err := FromFile(f)
		require.ErrorContains(t, err, want)
	}
	f := m.File()
	f.Tensors = slices.DeleteFunc(f.Tensors,
		func(t weights.Tensor) bool { return strings.HasPrefix(t.Name, "gradient.") })
	_, err = FromFile(f)
	require.ErrorContains(t, err, "normal\" needs statistics of gradients, but the file has none")
}
