package server

import (
	"context"
	"io"
	"net/http"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/lmserve/lmserve/internal/serving/keys"
	"github.com/lmserve/lmserve/server/docs"
)

// The page of the contract needs no key.
func TestContractIsReadableInBrowser(t *testing.T) {
	ring := newTestKeys(t, keys.Key{Name: "alice"})
	g := newRig(t, Options{Keys: ring.Ring})
	want, err := docs.Page()
	require.NoError(t, err)
	resp := g.do("GET", "/docs", nil, "Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Equal(t, docs.Policy, resp.Header.Get("Content-Security-Policy"))
	raw, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, want, raw)
}

func TestChromiumShowsTheContractAndAsksForNothingElse(t *testing.T) {
	browser := findChromium(t)
	core, log := observer.New(zap.DebugLevel)
	g := newRig(t, Options{Log: zap.New(core)})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(
		ctx, browser.path, "--headless", "--no-sandbox", "--disable-gpu",
		"--user-data-dir="+t.TempDir(),
		"--enable-logging=stderr", "--dump-dom", g.url+"/docs").
		CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), `<article id="score">`)
	require.NotContains(t, string(out), "Content Security Policy")
	for _, entry := range log.All() {
		require.Equal(t, "/docs", entry.ContextMap()["route"])
	}
	require.Equal(t, 1, log.Len())
}
