package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/lab/eval"
	"github.com/lmserve/lmserve/weights"
)

// The tuned model scores better with the tuned method, and its card has the new score. Everything
// else in the model is unchanged.
func TestTuneWritesABetterModel(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	dir := documentsOf(t, map[string]string{"a": strings.Repeat("one two three\n", 20),
		"b": strings.Repeat("GET /index 200\n", 20)})
	out := filepath.Join(t.TempDir(), "tuned.safetensors.zst")
	text := must(t, "", "tune", "--model", "swift", "--data", dir, "--methods", "cache",
		"--max-bytes", "200", "--out", out)
	require.Contains(t, text, "cache: theta")
	require.Contains(t, text, "written to "+out)

	bits := func(args ...string) (s eval.Score) {
		var res eval.Result
		require.NoError(t, json.Unmarshal([]byte(must(t, "",
			append([]string{"eval", "--model", "swift", "--data", dir, "--max-bytes", "200",
				"--json"}, args...)...)), &res))
		return *res.Total.Scores[0]
	}
	before, after := bits("--methods", "cache"), bits("--methods", "cache", "--model", out)
	require.Less(t, after.Bits, before.Bits)
	require.Contains(t, text, fmt.Sprintf("%.4f bits per byte", after.BitsPerByte))
	require.Equal(t, bits("--methods", "sparse-meta").Bits, bits("--methods", "sparse-meta",
		"--model", out).Bits)

	tuned, err := model.Load(out)
	require.NoError(t, err)
	require.Contains(t, text, "model "+tuned.ID())
	stored, err := weights.Embedded("swift")
	require.NoError(t, err)
	written, err := weights.ReadFile(out)
	require.NoError(t, err)
	require.Equal(t, stored.Tensors, written.Tensors, "the weights as they were stored")
}

func TestTuneGathersTheStatisticsOfGradients(t *testing.T) {
	data := documentsOf(t, map[string]string{"a": strings.Repeat("one two three\n", 20)})
	out := filepath.Join(t.TempDir(), "tuned.safetensors")
	text := must(t, "", "tune", "--model", randomModel(t), "--data", data, "--statistics", data,
		"--methods", "dynamic-rms", "--out", out)
	require.Contains(t, text, "dynamic-rms: rate")
	must(t, "", "eval", "--model", out, "--data", data, "--methods", "static,dynamic-rms")
}

// Normalized meta-learners can be trained on a model with gradient statistics. The trained model
// keeps the statistics.
func TestTuneGathersTheStatisticsThatNormalizeNeeds(t *testing.T) {
	data := documentsOf(t, map[string]string{"a": strings.Repeat("one two three\n", 200)})
	dir := t.TempDir()
	measured, trained := filepath.Join(dir, "measured.safetensors"),
		filepath.Join(dir, "trained.safetensors")
	train := func(init string) (string, int) {
		_, stderr, code := lmserve("", "train", "--phase", "meta", "--normalize", "--init", init,
			"--data", data, "--valid", "none",
			"--branches", "*.CoreNet.3.bias", "--meta-steps", "2", "--out", trained, "--quiet")
		return stderr, code
	}
	stderr, code := train(randomModel(t))
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "--normalize is true, expected false, or an initial model "+
		"with gradient statistics")

	text := must(t, "", "tune", "--model", randomModel(t), "--statistics", data, "--methods",
		"none", "--out", measured)
	require.Contains(t, text, "written to "+measured)
	stderr, code = train(measured)
	require.Zero(t, code, stderr)
	m, err := model.Load(trained)
	require.NoError(t, err)
	require.NotNil(t, m.Learner.Normal)

	_, stderr, code = lmserve("", "tune", "--model", trained, "--statistics", data, "--methods",
		"none", "--out", measured)
	require.Equal(t, exitFailure, code)
	require.Contains(t, stderr, "--statistics: model: the statistics of gradients cannot be "+
		"replaced")
}

func TestTuneSaysWhatWasWrong(t *testing.T) {
	dir := documentsOf(t, map[string]string{"a": "text"})
	out, inside := filepath.Join(t.TempDir(), "out.safetensors"), filepath.Join(dir, "b")
	for _, c := range []struct {
		args []string
		code int
		want []string
	}{
		{[]string{"--data", dir}, exitUsage, []string{"out"}},
		{[]string{"--data", dir, "--out", out, "--methods", "static"}, exitUsage,
			[]string{"--methods", "static", "cache"}},
		{[]string{"--data", dir, "--out", out, "--methods", "none"}, exitUsage,
			[]string{"--methods is none and --statistics is missing"}},
		{[]string{"--data", dir, "--out", out, "--methods", ""}, exitUsage,
			[]string{"--methods is empty, expected dynamic-sgd", "none"}},
		{[]string{"--data", dir, "--out", dir, "--methods", "cache"}, exitUsage,
			[]string{"--out", dir + " is a directory"}},
		{[]string{"--data", dir, "--out", out, "--max-bytes", "-1"}, exitUsage,
			[]string{"--max-bytes is -1"}},
		{[]string{"--data", dir, "--out", inside}, exitUsage,
			[]string{"--out is " + inside + ", expected a path outside of " + dir}},
		{[]string{"--statistics", dir, "--methods", "none", "--out", inside}, exitUsage,
			[]string{"expected a path outside of " + dir}},
		{[]string{"--data", dir, "--out", filepath.Join(dir, "no", "x")}, exitUsage,
			[]string{"--out", "no"}},
		{[]string{"--data", dir, "--out", out, "--model", randomModel(t)}, exitFailure,
			[]string{"no gradient statistics", "--statistics"}},
		{[]string{"--data", dir, "--out", out, "--statistics", dir}, exitFailure,
			[]string{dir, "chunk"}},
		{[]string{"--data", filepath.Join(dir, "no"), "--out", out}, exitFailure,
			[]string{filepath.Join(dir, "no")}},
	} {
		_, stderr, code := lmserve("", append([]string{"tune"}, c.args...)...)
		require.Equal(t, c.code, code, "%v: %s", c.args, stderr)
		for _, want := range c.want {
			require.Contains(t, stderr, want, "%v", c.args)
		}
		require.NoFileExists(t, out)
	}
}
