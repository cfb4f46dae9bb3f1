package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHealthAsksWhetherAServerServes(t *testing.T) {
	dir := t.TempDir()
	must(t, "", "keys", "add", "ops", "--data-dir", dir)
	url, stop := serving(t, "--model", randomModel(t), "--data-dir", dir)
	require.Contains(t, must(t, "", "health", "--server", url), `"status":"ready"`)
	stop()
	_, stderr, code := lmserve("", "health", "--server", url)
	require.Equal(t, exitFailure, code)
	require.Contains(t, stderr, "refused")
}

func TestHealthFailsWhileAServerTakesNoWork(t *testing.T) {
	answer := func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "/readyz", r.URL.Path)
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte(`{"status":"draining"}`))
	}
	// The command health accepts any certificate from a server on a loopback address.
	secure := httptest.NewTLSServer(http.HandlerFunc(answer))
	defer secure.Close()
	stdout, stderr, code := lmserve("", "health", "--server", secure.URL+"/")
	require.Equal(t, exitFailure, code)
	require.Equal(t, "{\"status\":\"draining\"}\n", stdout)
	require.Contains(t, stderr, "503")

	for _, wrong := range []string{"127.0.0.1:8080", "ftp://127.0.0.1", ""} {
		_, stderr, code := lmserve("", "health", "--server", wrong)
		require.Equal(t, exitUsage, code)
		require.Contains(t, stderr, "expected a URL")
	}
}
