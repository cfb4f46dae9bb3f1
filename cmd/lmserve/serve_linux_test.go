package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// refuseWrites takes from this process the right to write to a file that it has open: from now on a
// write fails, as on a disk that has gone bad.
func refuseWrites(t *testing.T, path string) {
	t.Helper()
	readOnly, err := os.Open(path)
	require.NoError(t, err)
	defer readOnly.Close()
	open, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	replaced := 0
	for _, entry := range open {
		var fd int
		_, err := fmt.Sscan(entry.Name(), &fd)
		require.NoError(t, err)
		if to, err := os.Readlink("/proc/self/fd/" + entry.Name()); err == nil && to == path && fd != int(readOnly.Fd()) {
			require.NoError(t, syscall.Dup3(int(readOnly.Fd()), fd, syscall.O_CLOEXEC))
			replaced++
		}
	}
	require.Equal(t, 1, replaced)
}

// When the data folder fails under a server, nothing is confirmed any more, the server is not
// ready, says why and ends with an error; what it had confirmed before is there when it starts
// again.
func TestServeEndsWithAnErrorWhenItsFolderFails(t *testing.T) {
	t.Parallel()
	file := randomModel(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	out, outWriter := io.Pipe()
	var stderr bytes.Buffer
	code := make(chan int, 1)
	go func() {
		// The scrub has the database open now and then, which refuseWrites would count.
		code <- run(t.Context(), []string{
			"serve", "--model", file, "--listen", "127.0.0.1:0", "--log-format", "none", "--data-dir", dir,
			"--drain-delay", "2s", "--scrub=false",
		}, nil, outWriter, &stderr)
	}()
	lines := bufio.NewReader(out)
	first, err := lines.ReadString('\n')
	require.NoError(t, err)
	_, err = lines.ReadString('\n')
	require.NoError(t, err)
	url := strings.TrimSpace(first[strings.LastIndex(first, "http"):])
	post := func(path, body string) (status int, answer map[string]any) {
		res, err := http.Post(url+path, "", strings.NewReader(body))
		require.NoError(t, err)
		defer res.Body.Close()
		require.NoError(t, json.NewDecoder(res.Body).Decode(&answer))
		return res.StatusCode, answer
	}
	get := func(path string) (status int, problem string) {
		res, err := http.Get(url + path)
		require.NoError(t, err)
		defer res.Body.Close()
		var answer struct{ Type string }
		require.NoError(t, json.NewDecoder(res.Body).Decode(&answer))
		return res.StatusCode, answer.Type
	}
	res, err := http.Post(url+"/v1/sessions", "application/json", nil)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	session := res.Header.Get("Location")
	status, _ := post(session+"/score", "this was confirmed")
	require.Equal(t, http.StatusOK, status)
	status, _ = get("/readyz")
	require.Equal(t, http.StatusOK, status)

	refuseWrites(t, filepath.Join(dir, "lmserve.db"))
	const failed = "urn:lmserve:problem:store-failed"
	for range 2 { // it is not tried again
		status, answer := post(session+"/score", "and this was not")
		require.Equal(t, http.StatusServiceUnavailable, status)
		require.Equal(t, failed, answer["type"])
	}
	for _, path := range []string{"/readyz", "/v1/sessions", session} {
		status, problem := get(path)
		require.Equal(t, http.StatusServiceUnavailable, status, path)
		require.Equal(t, failed, problem, path)
	}
	status, _ = get("/healthz")
	require.Equal(t, http.StatusOK, status)
	select {
	case c := <-code:
		require.Equal(t, exitFailure, c)
	case <-time.After(time.Minute):
		t.Fatal("it does not end")
	}
	require.Contains(t, stderr.String(), dir)
	require.Contains(t, stderr.String(), "the store has failed")
	http.DefaultClient.CloseIdleConnections()

	url, stop := serving(t, "--model", file, "--data-dir", dir)
	defer stop()
	res, err = http.Get(url + session)
	require.NoError(t, err)
	defer res.Body.Close()
	var is struct{ Offset int }
	require.NoError(t, json.NewDecoder(res.Body).Decode(&is))
	require.Equal(t, len("this was confirmed"), is.Offset)
}
