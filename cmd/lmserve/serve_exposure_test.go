package main

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func send(t *testing.T, method, url, key, body string) (status int, object map[string]any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer res.Body.Close()
	require.NoError(t, json.NewDecoder(res.Body).Decode(&object))
	return res.StatusCode, object
}

// If the sessions of a data folder have owners but the keys file is missing, the server does not
// start, so it exposes no session.
func TestFolderWithOwnersNeedsItsKeys(t *testing.T) {
	file, dir := randomModel(t), t.TempDir()
	alice := strings.TrimSpace(must(t, "", "keys", "add", "alice", "--data-dir", dir))
	url, stop := serving(t, "--model", file, "--data-dir", dir)
	status, made := send(t, "POST", url+"/v1/sessions", alice, "{}")
	require.Equal(t, http.StatusCreated, status)
	stop()

	keysFile := filepath.Join(dir, "keys.json")
	require.NoError(t, os.Rename(keysFile, keysFile+".away"))
	_, stderr, code := lmserve("", "serve", "--log-format", "none", "--model", file, "--data-dir",
		dir, "--listen", "127.0.0.1:0")
	require.Equal(t, exitUsage, code)
	for _, part := range []string{dir, "has 1 sessions that belong", made["id"].(string), keysFile,
		"lmserve keys add", "--open-to-anyone"} {
		require.Contains(t, stderr, part)
	}

	url, stop = serving(t, "--model", file, "--data-dir", dir, "--open-to-anyone")
	status, _ = send(t, "GET", url+"/v1/sessions/"+made["id"].(string), "", "")
	require.Equal(t, http.StatusNotFound, status, "what belongs to a key still does")
	stop()

	require.NoError(t, os.Rename(keysFile+".away", keysFile))
	url, stop = serving(t, "--model", file, "--data-dir", dir)
	defer stop()
	status, _ = send(t, "GET", url+"/v1/sessions/"+made["id"].(string), alice, "")
	require.Equal(t, http.StatusOK, status)
}

// A server that listens on an IPv4 address is not reachable over IPv6. A server that listens on
// [::], all IPv6 addresses, is also reachable over IPv4.
func TestServeListensWhereItWasTold(t *testing.T) {
	v6, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Skip("this machine has no IPv6")
	}
	require.NoError(t, v6.Close())
	model := smallModel(t)
	for listen, also := range map[string]bool{"0.0.0.0:0": false, "[::]:0": true} {
		url, stop := serving(t, "--model", model, "--listen", listen, "--insecure")
		_, port, err := net.SplitHostPort(strings.TrimPrefix(url, "http://"))
		require.NoError(t, err)
		status, _ := send(t, "GET", "http://127.0.0.1:"+port+"/healthz", "", "")
		require.Equal(t, http.StatusOK, status)
		conn, err := net.Dial("tcp6", "[::1]:"+port)
		require.Equal(t, also, err == nil, listen)
		if err == nil {
			require.NoError(t, conn.Close())
		}
		stop()
	}
}

func TestServeTakesMoreNames(t *testing.T) {
	url, stop := serving(t, "--model", smallModel(t), "--allow-host", "lm.example.org",
		"--allow-host", "10.1.2.3")
	defer stop()
	for host, want := range map[string]int{"lm.example.org": 200, "10.1.2.3:80": 200,
		"localhost": 200, "evil.example": 421} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", url+"/healthz", nil)
		require.NoError(t, err)
		r.Host = host
		res, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, want, res.StatusCode, host)
	}
}

// A web page may use the server if --cors-origin names its origin. "*" and patterns are not valid
// origins.
func TestServeNamesOriginsOfPages(t *testing.T) {
	const page = "https://app.example.org"
	url, stop := serving(t, "--model", smallModel(t), "--cors-origin", page)
	defer stop()
	for origin, want := range map[string]int{page: http.StatusOK,
		"https://evil.example": http.StatusForbidden} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", url+"/v1/sessions", nil)
		require.NoError(t, err)
		r.Header.Set("Origin", origin)
		res, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, want, res.StatusCode, origin)
		require.Equal(t, want == http.StatusOK,
			res.Header.Get("Access-Control-Allow-Origin") == origin)
	}
	for _, bad := range []string{"*", "https://*.example.org", "app.example.org"} {
		_, stderr, code := lmserve("", "serve", "--data-dir", "none", "--cors-origin", bad)
		require.Equal(t, exitUsage, code)
		require.Contains(t, stderr, "--cors-origin: found")
	}
}
