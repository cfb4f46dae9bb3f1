//go:build unix

package restart

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/model/modeltest"
	"github.com/lmserve/lmserve/internal/e2e/program"
)

// cutting starts a proxy to the server at url. The proxy drops every connection after bytesEach
// bytes, and counts dropped connections in cuts.
func cutting(t *testing.T, url string, bytesEach int64) (way *httptest.Server, cuts *atomic.Int64) {
	cuts = new(atomic.Int64)
	way = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request, err := http.NewRequestWithContext(r.Context(), r.Method, url+r.URL.Path, nil)
		if err != nil {
			panic(err)
		}
		request.Header = r.Header.Clone()
		resp, err := http.DefaultClient.Do(request)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		defer resp.Body.Close()
		for name, values := range resp.Header {
			w.Header()[name] = values
		}
		w.WriteHeader(resp.StatusCode)
		_, _ = io.CopyN(w, resp.Body, bytesEach)
		if err := http.NewResponseController(w).Flush(); err != nil ||
			resp.ContentLength > bytesEach {
			cuts.Add(1)
			panic(http.ErrAbortHandler)
		}
	}))
	t.Cleanup(way.Close)
	return way, cuts
}

// A server is backed up over connections that break, and is killed and restarted while a client
// reads a backup. The restored folder has no findings, and a replay gives the same bits. The same
// holds for a backup of a data folder that no server uses.
func TestBackupAndRestore(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	t.Parallel()
	small, err := modeltest.SmallFile(t.TempDir())
	require.NoError(t, err)
	lmserve, dir := program.Built(t, program.AsTested(t)...), filepath.Join(t.TempDir(), "data")
	serve := func() *program.Process {
		return program.Serve(t, lmserve, "--data-dir", dir, "--model", small, "--max-replay", "1ns")
	}
	p := serve()
	text := strings.Repeat("GET /index.html 200\nGET /none 404\n", 40)
	feed := func(url string) string {
		res, err := http.Post(url+"/v1/sessions", "application/json",
			strings.NewReader(`{"seed":3,"settings":{"chunk":16}}`))
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		path := res.Header.Get("Location")
		res, err = http.Post(url+path+"/score", "text/plain", strings.NewReader(text))
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		return strings.TrimPrefix(path, "/v1/sessions/")
	}
	folder := t.TempDir()
	ok := func(args ...string) string {
		return program.Must(t, lmserve, args...)
	}
	clean := func(dir string, sessions int) {
		require.Equal(t, fmt.Sprintf("%d sessions, 0 findings\n", sessions), ok("sessions", "check",
			"--data-dir", dir, "--model", small))
		require.Contains(t, ok("sessions", "replay", "--data-dir", dir, "--model", small),
			"all bit-identical")
	}
	feed(p.URL)

	hot := filepath.Join(folder, "hot.tar.zst")
	way, cuts := cutting(t, p.URL, 20_000)
	require.Contains(t, ok("backup", "--server", way.URL, hot), "bytes\n")
	require.Greater(t, cuts.Load(), int64(1))
	_, stderr, code := program.Run(t, lmserve, "backup", "--server", p.URL, hot)
	require.Equal(t, program.Failure, code)
	require.Contains(t, stderr, "file already exists")
	first := filepath.Join(folder, "first")
	require.Equal(t, first+": restored\n", ok("restore", hot, first))
	_, stderr, code = program.Run(t, lmserve, "restore", hot, first)
	require.Equal(t, program.Failure, code)
	require.Contains(t, stderr, "file already exists")
	clean(first, 1)

	_, _, code = program.Run(t, lmserve, "backup", "--data-dir", dir,
		filepath.Join(folder, "none.tar"))
	require.Equal(t, program.Failure, code, "a server has the folder open")
	res, err := http.Get(p.URL + "/v1/admin/backup")
	require.NoError(t, err)
	etag := res.Header.Get("ETag")
	_, err = io.CopyN(io.Discard, res.Body, 5000)
	require.NoError(t, err)
	p.Kill()
	_ = res.Body.Close()
	p.Wait(t)
	left, err := filepath.Glob(filepath.Join(dir, "backup", "*"))
	require.NoError(t, err)
	require.NotEmpty(t, left, "links of the backup are left")
	p = serve()
	left, err = filepath.Glob(filepath.Join(dir, "backup", "*"))
	require.NoError(t, err)
	require.Empty(t, left)
	request, err := http.NewRequest("GET", p.URL+"/v1/admin/backup", nil)
	require.NoError(t, err)
	request.Header.Set("If-Match", etag)
	res, err = http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.Equal(t, http.StatusPreconditionFailed, res.StatusCode)
	require.NoError(t, res.Body.Close())
	feed(p.URL)
	p.Terminate()
	p.Wait(t)
	clean(dir, 2)

	cold := filepath.Join(folder, "cold.tar")
	ok("backup", "--data-dir", dir, cold)
	second := filepath.Join(folder, "second")
	ok("restore", cold, second)
	clean(second, 2)
	content, err := os.ReadFile(cold)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(cold, content[:len(content)/2], 0o600))
	third := filepath.Join(folder, "third")
	_, stderr, code = program.Run(t, lmserve, "restore", cold, third)
	require.Equal(t, program.Failure, code)
	require.Contains(t, stderr, "not a complete backup")
	require.NoDirExists(t, third)
}
