package main

import (
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/model/modeltest"
	"github.com/lmserve/lmserve/weights"
)

// A server of two models scores the same text with both: a session on one has a shadow on the
// other, which is there again, and goes on, after a restart.
func TestServeScoresATextWithTwoModels(t *testing.T) {
	first, second, dir := randomModel(t), filepath.Join(t.TempDir(), "words"), t.TempDir()
	m, err := modeltest.SmallOfWords()
	require.NoError(t, err)
	require.NoError(t, weights.WriteFile(second, m.File(), weights.WriteOptions{}))
	args := []string{"--model", first, "--model", second, "--data-dir", dir}
	url, stop := serving(t, args...)
	status, _ := send(t, http.MethodPut, url+"/v1/sessions/live", "", "{}")
	require.Equal(t, http.StatusCreated, status)
	status, made := send(t, http.MethodPut, url+"/v1/sessions/next", "",
		`{"shadow_of":"live","model":"`+m.ID()+`"}`)
	require.Equal(t, http.StatusCreated, status, "%v", made)
	require.Equal(t, m.ID(), made["model"])
	feed := func() {
		status, _ := send(t, http.MethodPost, url+"/v1/sessions/live/score", "",
			`{"text":"the cat sat on the mat .\n"}`)
		require.Equal(t, http.StatusOK, status)
	}
	feed()
	stop()
	url, stop = serving(t, args...)
	defer stop()
	feed()
	var compared map[string]any
	require.Eventually(t, func() bool {
		_, is := send(t, http.MethodGet, url+"/v1/sessions/live", "", "")
		link := is["shadows"].([]any)[0].(map[string]any)
		compared, _ = link["compared"].(map[string]any)
		return link["behind_bytes"] == 0.
	}, time.Minute, 10*time.Millisecond)
	require.EqualValues(t, 50, compared["offset"])
	require.InDelta(t, compared["difference"], compared["shadow_bits_per_byte"].(float64)-
		compared["session_bits_per_byte"].(float64), 1e-12)
	status, refused := send(t, http.MethodPost, url+"/v1/sessions/next/score", "", `{"text":"x"}`)
	require.Equal(t, http.StatusConflict, status)
	require.Equal(t, "urn:lmserve:problem:session-shadow", refused["type"])
	status, is := send(t, http.MethodPatch, url+"/v1/sessions/next", "", `{"shadow_of":null}`)
	require.Equal(t, http.StatusOK, status)
	require.NotContains(t, is, "shadow_of")
	status, _ = send(t, http.MethodPost, url+"/v1/sessions/next/score", "", `{"text":"x"}`)
	require.Equal(t, http.StatusOK, status)

	_, stderr, code := lmserve("", "serve", "--data-dir", "none", "--model", first, "--model", first)
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "expected another")
}
