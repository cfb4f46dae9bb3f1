package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// While a session's folder is missing, requests for the session get 503, and the server continues.
// No acknowledged text is lost.
func TestServeOutlivesAFolderThatIsAway(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	url, stop := serving(t, "--model", randomModel(t), "--data-dir", dir, "--scrub=false")
	post := func(path, body string) int {
		res, err := http.Post(url+path, "", strings.NewReader(body))
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		return res.StatusCode
	}
	made := func() string {
		res, err := http.Post(url+"/v1/sessions", "application/json", nil)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		return res.Header.Get("Location")
	}
	session, other := made(), made()
	require.Equal(t, http.StatusOK, post(session+"/score", "this was confirmed"))
	here := filepath.Join(dir, "sessions", filepath.Base(session))
	away := filepath.Join(t.TempDir(), "away")
	require.NoError(t, os.Rename(here, away))
	for range 2 {
		require.Equal(t, http.StatusServiceUnavailable, post(session+"/score", "and this was not"))
	}
	require.Equal(t, http.StatusOK, post(other+"/score", "the others go on"))
	require.NoError(t, os.Rename(away, here))
	require.Equal(t, http.StatusOK, post(session+"/score", "; and so was this"))
	stop()
	url, stop = serving(t, "--model", randomModel(t), "--data-dir", dir)
	defer stop()
	res, err := http.Get(url + session)
	require.NoError(t, err)
	defer res.Body.Close()
	var is struct{ Offset int }
	require.NoError(t, json.NewDecoder(res.Body).Decode(&is))
	require.Equal(t, len("this was confirmed; and so was this"), is.Offset)
}
