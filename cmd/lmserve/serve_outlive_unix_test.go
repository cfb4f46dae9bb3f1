//go:build unix

package main

import (
	"bufio"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestServeOutlivesItsTerminalAndItsReader(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run", "^TestServeChild$")
	args := []string{
		"serve", "--listen", "127.0.0.1:0", "--data-dir", "none", "--model", smallModel(t),
	}
	cmd.Env = append(os.Environ(), serveArgs+"="+strings.Join(args, "\n"))
	out, in, err := os.Pipe()
	require.NoError(t, err)
	cmd.Stdout, cmd.Stderr = in, in
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	require.NoError(t, in.Close())
	lines := bufio.NewScanner(out)
	var url string
	for url == "" && lines.Scan() {
		if at := strings.Index(lines.Text(), "http://"); at >= 0 {
			url = lines.Text()[at:]
		}
	}
	require.NotEmpty(t, url)
	// The reader closes the output early, as the command head does.
	require.NoError(t, out.Close())
	require.NoError(t, cmd.Process.Signal(syscall.SIGHUP))
	for range 3 { // each request writes a log line to the closed output
		resp, err := http.Post(url+"/v1/sessions", "application/json", nil)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusCreated, resp.StatusCode)
	}
}
