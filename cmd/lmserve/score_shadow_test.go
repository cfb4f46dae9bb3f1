package main

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/model/modeltest"
	"github.com/lmserve/lmserve/weights"
)

// A second model gives a text the same bits as a command that runs only this model. The server may
// be local or remote.
func TestScoreWithASecondModelSaysWhatBothMakeOfTheText(t *testing.T) {
	first, second := randomModel(t), filepath.Join(t.TempDir(), "second")
	m, err := modeltest.New(8)
	require.NoError(t, err)
	require.NoError(t, weights.WriteFile(second, m.File(), weights.WriteOptions{}))
	text, _ := beginning(t, 1500)
	alone := func(model string) float64 {
		lines := jsonLines(t, must(t, text, "score", "--json", "--total-only", "--model", model))
		return lines[0].Bits / float64(lines[0].Bytes)
	}
	url, stop := serving(t, "--model", first, "--model", second)
	defer stop()
	for _, where := range [][]string{
		{"--model", first, "--shadow-model", second}, {"--server", url, "--shadow-model", m.ID()},
	} {
		args := append([]string{"score", "--json", "--total-only"}, where...)
		out := strings.SplitAfter(must(t, text, args...), "\n")
		var got shadowObject
		require.NoError(t, json.Unmarshal([]byte(out[1]), &got))
		require.Equal(t, m.ID(), got.Shadow)
		require.EqualValues(t, len(text), got.Bytes)
		require.InDelta(t, alone(second), *got.BitsPerByte, 1e-12)
		require.InDelta(t, alone(first), *got.SessionBitsPerByte, 1e-12)
		require.InDelta(t, alone(second)-alone(first), *got.Difference, 1e-12)
	}
	status, left := send(t, http.MethodGet, url+"/v1/sessions", "", "")
	require.Equal(t, http.StatusOK, status)
	require.Empty(t, left["sessions"], "nothing is left at the server")
	out := must(t, text, "score", "--lines", "--total-only", "--model", first, "--shadow-model",
		second)
	require.Contains(t, out, "bits/byte with "+m.ID()+", ")

	for wrong, args := range map[string][]string{
		"and --session are both given":          {"--session", "web", "--shadow-model", second},
		"is given with --learn false":           {"--learn", "false", "--shadow-model", second},
		"the same as in " + first + ";":         {"--model", first, "--shadow-model", first},
		"--shadow-model is \"none\", expected ": {"--server", url, "--shadow-model", "none"},
	} {
		_, stderr, code := lmserve(text, append([]string{"score"}, args...)...)
		require.Equal(t, exitUsage, code, stderr)
		require.Contains(t, stderr, wrong)
	}
}
