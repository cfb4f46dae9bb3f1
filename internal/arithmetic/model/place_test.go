package model_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/model/modeltest"
	"github.com/lmserve/lmserve/weights"
)

func TestModelIsFoundByItsNameOrItsFile(t *testing.T) {
	m, err := modeltest.Small()
	require.NoError(t, err)
	folder := t.TempDir()
	for _, file := range []string{
		"tiny.safetensors", "lmserve-large.safetensors.zst", "default.safetensors",
	} {
		path := filepath.Join(folder, file)
		require.NoError(t, weights.WriteFile(path, m.File(), weights.OptionsFor(path)))
	}
	require.NoError(t, os.WriteFile(filepath.Join(folder, "notes.txt"), nil, 0o600))
	own := filepath.Join(folder, "default.safetensors")
	t.Chdir(t.TempDir())
	for _, name := range []string{"tiny", "other"} {
		require.NoError(t, os.Mkdir(name, 0o700))
	}
	for name, want := range map[string]model.Place{
		"": {Name: "default"}, "default": {Name: "default"}, "lmserve-default": {Name: "default"},
		"swift": {Name: "swift"}, "lmserve-swift": {Name: "swift"},
		"tiny":          {"tiny", filepath.Join(folder, "tiny.safetensors")},
		"large":         {"large", filepath.Join(folder, "lmserve-large.safetensors.zst")},
		"lmserve-large": {"large", filepath.Join(folder, "lmserve-large.safetensors.zst")},
		own:             {own, own},
	} {
		p, err := model.Find(name, []string{folder})
		require.NoError(t, err)
		require.Equal(t, want, p, name)
	}
	p, err := model.Find("large", []string{folder})
	require.NoError(t, err)
	found, err := p.Load()
	require.NoError(t, err)
	require.Equal(t, m.Hash(), found.Hash())
	_, err = model.Find("none", []string{folder})
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "(default, swift, counts) or in the folders "+folder)
	_, err = model.Find("other", []string{folder})
	require.ErrorContains(t, err, "model other: it is a folder; no model of this name")
	require.Len(t, model.Places([]string{folder, filepath.Join(folder, "none")}), 6)
}

func TestOutlineIsModelWithoutItsLargeArrays(t *testing.T) {
	m, err := modeltest.Small()
	require.NoError(t, err)
	loads := 0
	from, loaded, err := model.NewSource(func() (*model.Model, error) {
		loads++
		return model.FromFile(m.File())
	})
	require.NoError(t, err)
	require.NotSame(t, m, loaded)
	o := from.Outline
	require.Equal(t, m.ID(), o.ID())
	require.Nil(t, o.LM.W)
	require.Empty(t, o.Statistics.Codes)
	require.Equal(t, m.ArenaSize(), o.ArenaSize())
	require.Equal(t, int64(4*len(m.LM.W)+len(m.Statistics.Codes)), from.Bytes)
	again, err := from.Load()
	require.NoError(t, err)
	require.NotSame(t, loaded, again)
	require.Equal(t, 2, loads)
}
