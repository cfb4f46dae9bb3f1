//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/e2e/program"
	"github.com/lmserve/lmserve/internal/serving/storage/folder"
)

// serveArgs is the environment variable with the arguments of TestServeChild, one per line.
const serveArgs = "LMSERVE_TEST_SERVE"

// TestServeChild runs in a child process of other tests, as a server that continuously scans its
// files for damage.
func TestServeChild(t *testing.T) {
	args := os.Getenv(serveArgs)
	if args == "" {
		t.Skip("it is run by another test")
	}
	scrubbing = folder.ScrubOptions{FilesPerSecond: 1 << 20, Rest: 100 * time.Millisecond}
	os.Exit(run(t.Context(), strings.Split(args, "\n"), nil, os.Stdout, os.Stderr))
}

type damagedServer struct {
	t    *testing.T
	dir  string
	url  string
	cmd  *exec.Cmd
	log  lockedBuffer
	ids  []string
	want []float64 // last reported bits of each session
	at   []int     // acknowledged bytes of each session
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func newDamagedServer(t *testing.T, sessions int) *damagedServer {
	r := &damagedServer{t: t, dir: filepath.Join(t.TempDir(), "data")}
	r.cmd = program.Command(os.Args[0], "-test.run", "^TestServeChild$")
	args := []string{
		"serve", "--listen", "127.0.0.1:0", "--data-dir", r.dir, "--model", smallModel(t),
	}
	r.cmd.Env = append(os.Environ(), serveArgs+"="+strings.Join(args, "\n"))
	out, err := r.cmd.StdoutPipe()
	require.NoError(t, err)
	r.cmd.Stderr = &r.log
	require.NoError(t, r.cmd.Start())
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill() // the process may already have ended
		_ = r.cmd.Wait()
	})
	first, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err, "%s", &r.log)
	r.url = strings.TrimSpace(first[strings.LastIndex(first, "http"):])
	for range sessions {
		var made struct{ ID string }
		status, _ := r.ask(http.MethodPost, "/v1/sessions", `{"seed":3}`, &made)
		require.Equal(t, http.StatusCreated, status)
		r.ids = append(r.ids, made.ID)
	}
	r.want, r.at = make([]float64, sessions), make([]int, sessions)
	return r
}

func (r *damagedServer) ask(method, path, body string, into any) (status int, header http.Header) {
	request, err := http.NewRequest(method, r.url+path, strings.NewReader(body))
	require.NoError(r.t, err)
	request.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(request)
	require.NoError(r.t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(r.t, err)
	if res.StatusCode < 300 && into != nil {
		require.NoError(r.t, json.Unmarshal(text, into), "%s", text)
	}
	return res.StatusCode, res.Header
}

func textOf(n, bytes int) (text string) {
	for i := 0; len(text) < bytes; i++ {
		text += fmt.Sprintf("session %03d, line %05d\n", n, i)
	}
	return text[:bytes]
}

// feed feeds a session up to an offset, and returns the answer's status. It retries after 503.
func (r *damagedServer) feed(n, to int) (status int) {
	for {
		body, err := json.Marshal(map[string]string{"text": textOf(n, to)[r.at[n]:]})
		require.NoError(r.t, err)
		var done struct {
			Offset int
			Totals struct{ Bits float64 }
		}
		path := fmt.Sprintf("/v1/sessions/%s/score?offset=%d", r.ids[n], r.at[n])
		status, header := r.ask(http.MethodPost, path, string(body), &done)
		switch status {
		case http.StatusOK:
			require.Equal(r.t, to, done.Offset)
			r.at[n], r.want[n] = done.Offset, done.Totals.Bits
		case http.StatusServiceUnavailable:
			require.NotEmpty(r.t, header.Get("Retry-After"))
			time.Sleep(20 * time.Millisecond)
			continue
		case http.StatusConflict:
			// An earlier answer may have been cut off after the server accepted a chunk: continue
			// at the session's offset.
			var info struct{ Offset int }
			_, _ = r.ask(http.MethodGet, "/v1/sessions/"+r.ids[n], "", &info)
			if info.Offset > r.at[n] && info.Offset < to {
				r.at[n] = info.Offset
				continue
			}
		}
		return status
	}
}

func (r *damagedServer) damage(n int) {
	path := filepath.Join(r.dir, "sessions", r.ids[n], "log.0000000000000000")
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(r.t, err)
	at := int64(100)
	b := make([]byte, 1)
	_, err = file.ReadAt(b, at)
	require.NoError(r.t, err)
	b[0] ^= 1
	_, err = file.WriteAt(b, at)
	require.NoError(r.t, err)
	require.NoError(r.t, file.Close())
}

// If the files of one session are damaged while the server runs, the damage affects only that
// session. The process stays up, and all other sessions continue bit-identically.
func TestDamageUnderAServerIsOneSessions(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	t.Parallel()
	const sessions, before, after = 12, 800, 1100
	r := newDamagedServer(t, sessions)
	for n := range sessions {
		require.Equal(t, http.StatusOK, r.feed(n, before))
	}
	r.damage(sessions / 2)
	require.Eventually(t, func() bool {
		return strings.Contains(r.log.String(), "sessions/"+r.ids[sessions/2]+"/log.")
	}, time.Minute, 10*time.Millisecond, "%s", &r.log)
	for n := range sessions {
		if n != sessions/2 {
			require.Equal(t, http.StatusOK, r.feed(n, after))
		}
	}
	for n := range sessions {
		if n%4 != 1 {
			continue
		}
		var made struct{ ID string }
		r.ask(http.MethodPost, "/v1/sessions", `{"seed":3}`, &made)
		var done struct{ Totals struct{ Bits float64 } }
		text, err := json.Marshal(map[string]string{"text": textOf(n, after)})
		require.NoError(t, err)
		r.ask(http.MethodPost, "/v1/sessions/"+made.ID+"/score", string(text), &done)
		require.Equal(t, done.Totals.Bits, r.want[n], "session %d", n)
	}
	require.NoError(t, r.cmd.Process.Signal(syscall.Signal(0)), "the process is the same")
}
