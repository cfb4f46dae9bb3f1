package conformance

import (
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
	"github.com/lmserve/lmserve/weights"
)

func open(t *testing.T, path string) *weights.File {
	f, err := weights.ReadFile(path)
	require.NoError(t, err)
	return f
}

func replayFile(t *testing.T, f *weights.File, threads int) (Report, error) {
	x := kernel.NewExec(threads)
	defer x.Close()
	return Run(f, x)
}

func TestShippedFilesAreWithinTolerance(t *testing.T) {
	files, err := filepath.Glob("testdata/*.safetensors")
	require.NoError(t, err)
	kinds := map[string]bool{}
	for _, path := range files {
		f := open(t, path)
		report, err := replayFile(t, f, 2)
		require.NoError(t, err, path)
		require.NotEmpty(t, report.Checks)
		for _, c := range report.Checks {
			require.True(t, c.OK(), "%s: %s is off by %g, tolerance %g", path, c.Tensor, c.Error,
				c.Tolerance)
		}
		kinds[report.Kind] = true
	}
	require.Equal(t, map[string]bool{
		"txl": true, "adasoftmax": true, "sparsemeta": true, "metatrain": true, "metaonline": true,
	}, kinds)
}

func TestThreadsChangeNoError(t *testing.T) {
	for _, name := range []string{"txl_clamp", "adasoftmax_small"} {
		path := "testdata/" + name + ".safetensors"
		one, err := replayFile(t, open(t, path), 1)
		require.NoError(t, err)
		for _, threads := range []int{2, 5} {
			other, err := replayFile(t, open(t, path), threads)
			require.NoError(t, err)
			require.Equal(t, one, other)
		}
	}
}

// The replay compares every tensor of results: after a change in any of them the file is out of
// tolerance.
func TestAnySpoiledResultIsFound(t *testing.T) {
	for _, name := range []string{
		"txl_small", "adasoftmax_small", "adasoftmax_own_tables", "metatrain_small",
	} {
		path := "testdata/" + name + ".safetensors"
		clean, err := replayFile(t, open(t, path), 1)
		require.NoError(t, err)
		for _, c := range clean.Checks {
			f := open(t, path)
			spoiled := &f.Tensors[index(f, c.Tensor)]
			v, err := spoiled.Float32s()
			require.NoError(t, err)
			v[len(v)/2] += float32(10*c.Tolerance) + 1e-3
			*spoiled = weights.F32Tensor(c.Tensor, spoiled.Shape, v)
			report, err := replayFile(t, f, 1)
			require.NoError(t, err)
			found := slices.ContainsFunc(report.Checks, func(c Check) bool { return !c.OK() })
			require.True(t, found, "%s: %s", path, c.Tensor)
		}
	}
}

func TestMalformedFilesAreRefusedWithTheirField(t *testing.T) {
	for want, spoil := range map[string]func(*weights.File){
		"kind":                   func(f *weights.File) { f.Metadata["kind"] = "other" },
		"n_layer is missing":     func(f *weights.File) { delete(f.Metadata, "n_layer") },
		"segments is -1":         func(f *weights.File) { f.Metadata["segments"] = "-1" },
		"expected [32 8], as in": func(f *weights.File) { f.Metadata["d_embed"] = "8" },
		"layer_norm_eps":         func(f *weights.File) { f.Metadata["layer_norm_eps"] = "0.1" },
		`"seg0.nll" is missing`:  func(f *weights.File) { rename(f, "seg0.nll") },
		"has 16 elements":        func(f *weights.File) { f.Metadata["segment_len"] = "9" },
		"expected at most 65536": func(f *weights.File) { f.Metadata["batch"] = "65536" },
		"layers.2.dec_attn.qkv_net.weight\" is missing": func(f *weights.File) {
			f.Metadata["n_layer"] = "1024"
		},
		"[65536 16],": func(f *weights.File) { f.Metadata["d_inner"] = "65536" },
		"is token 77": func(f *weights.File) { f.Tensors[index(f, "seg1.input")].Data[0] = 77 },
	} {
		f := open(t, "testdata/txl_small.safetensors")
		spoil(f)
		_, err := replayFile(t, f, 1)
		require.ErrorContains(t, err, want)
	}
}

func TestMalformedClustersAreRefusedWithTheirField(t *testing.T) {
	for want, spoil := range map[string]func(*weights.File){
		"metadata cutoffs is": func(f *weights.File) { f.Metadata["cutoffs"] = "12,28" },
		"cutoffs[1] is 12":    func(f *weights.File) { f.Metadata["cutoffs"] = "[12,12]" },
		"cutoffs[1] is 60":    func(f *weights.File) { f.Metadata["cutoffs"] = "[12,60]" },
		"tie_projs has 4": func(f *weights.File) {
			f.Metadata["tie_projs"] =
				"[true,true,true,false]"
		},
		"div_val is 5":         func(f *weights.File) { f.Metadata["div_val"] = "5" },
		"d_embed is -2":        func(f *weights.File) { f.Metadata["d_embed"] = "-2" },
		"expected [16 4]":      func(f *weights.File) { f.Metadata["div_val"] = "4" },
		`out_projs.0" is miss`: func(f *weights.File) { rename(f, "crit.out_projs.0") },
		`out_layers.0.weight" is missing`: func(f *weights.File) {
			f.Metadata["untie_softmax"] = "true"
		},
		`"word_emb.emb_projs.1" has shape [8 16], expected [16 8]`: func(
			f *weights.File) {
			f.Tensors[index(f, "word_emb.emb_projs.1")].Shape = []int{8, 16}
		},
	} {
		f := open(t, "testdata/adasoftmax_small.safetensors")
		spoil(f)
		_, err := replayFile(t, f, 1)
		require.ErrorContains(t, err, want)
	}
}

func rename(f *weights.File, name string) { f.Tensors[index(f, name)].Name += ".renamed" }

func index(f *weights.File, name string) int {
	return slices.IndexFunc(f.Tensors, func(t weights.Tensor) bool { return t.Name == name })
}

func TestNaNIsOutOfTolerance(t *testing.T) {
	require.False(t, Check{Error: math.NaN(), Tolerance: 1}.OK())
}
