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
	"github.com/lmserve/lmserve/internal/sessionlog"
)

// serveArgs is the environment variable with the arguments of TestServeChild, one a line.
const serveArgs = "LMSERVE_TEST_SERVE"

// TestServeChild is a process that serves, and looks for damage all the time.
func TestServeChild(t *testing.T) {
	args := os.Getenv(serveArgs)
	if args == "" {
		t.Skip("it is run by another test")
	}
	scrubbing = sessionlog.ScrubOptions{ReadsPerSecond: 1 << 20, Rest: 100 * time.Millisecond}
	os.Exit(run(t.Context(), strings.Split(args, "\n"), nil, os.Stdout, os.Stderr))
}

// reopening is a server in a process of its own, and what its clients know.
type reopening struct {
	t    *testing.T
	dir  string
	url  string
	cmd  *exec.Cmd
	log  lockedBuffer
	ids  []string
	want []float64 // by session: the totals that its client was told last
	at   []int     // by session: bytes of text that were acknowledged
}

// lockedBuffer is written by one goroutine and read by others.
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

func newReopening(t *testing.T, sessions int) *reopening {
	r := &reopening{t: t, dir: filepath.Join(t.TempDir(), "data")}
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
		_ = r.cmd.Process.Kill() // it may have ended
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

// ask sends a request, and decodes the answer if it is no problem.
func (r *reopening) ask(method, path, body string, into any) (status int, header http.Header) {
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

// textOf is the text of a session, which no other has.
func textOf(n, bytes int) (text string) {
	for i := 0; len(text) < bytes; i++ {
		text += fmt.Sprintf("session %03d, line %05d\n", n, i)
	}
	return text[:bytes]
}

// feed feeds a session up to an offset, and tells the answer's status. A client that is told that
// the store has failed comes back as soon as the answer says.
func (r *reopening) feed(n, to int) (status int) {
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
			// A chunk may have been acknowledged by an answer that was cut off by the failure.
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

// damage makes zeros of the pages that have text of a session, free ones included.
func (r *reopening) damage(n int) {
	path := filepath.Join(r.dir, "lmserve.db")
	content, err := os.ReadFile(path)
	require.NoError(r.t, err)
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(r.t, err)
	pages := 0
	for at := 0; at+4096 <= len(content); at += 4096 {
		if bytes.Contains(content[at:at+4096], []byte(textOf(n, 16))) {
			pages++
			_, err = file.WriteAt(make([]byte, 4096), int64(at))
			require.NoError(r.t, err)
		}
	}
	require.NotZero(r.t, pages)
	require.NoError(r.t, file.Close())
}

// openedAgain waits for the server to have opened the folder a number of times again.
func (r *reopening) openedAgain(times int) {
	require.Eventually(r.t, func() bool {
		return strings.Count(r.log.String(), "the data folder is open again") >= times
	}, time.Minute, 10*time.Millisecond, "%s", &r.log)
}

// The damaging of a page under a running server stops the sessions that it touches. The process
// stays, the others go on within seconds, to the bits that they would have come to, and a client in
// the middle of a stream is told that it may try again.
func TestDamageUnderARunningServerStopsOnlyWhatItTouches(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	t.Parallel()
	const sessions, before, after = 60, 800, 1100
	r := newReopening(t, sessions)
	for n := range sessions {
		require.Equal(t, http.StatusOK, r.feed(n, before))
	}
	body, text := io.Pipe()
	events := make(chan string, 1)
	go func() {
		path := r.url + "/v1/sessions/" + r.ids[0] + "/score"
		request, err := http.NewRequest(http.MethodPost, path, body)
		require.NoError(t, err)
		request.Header.Set("Content-Type", "text/plain")
		request.Header.Set("Accept", "application/x-ndjson")
		res, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		all, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		events <- string(all)
	}()
	_, err := text.Write([]byte(textOf(0, before+16)[before:]))
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		var info struct{ Offset int }
		r.ask(http.MethodGet, "/v1/sessions/"+r.ids[0], "", &info)
		return info.Offset == before+16
	}, time.Minute, 10*time.Millisecond)
	r.at[0] += 16

	began := time.Now()
	r.damage(sessions / 2)
	r.openedAgain(1)
	t.Logf("open again %v after the damage", time.Since(began).Round(time.Millisecond))
	_, _ = text.Write([]byte("more")) // the stream ends with it
	require.Contains(t, <-events, "urn:lmserve:problem:store-failed")
	_ = text.Close()
	require.FileExists(t, filepath.Join(r.dir, "lmserve.db.damaged-1"))

	whole := 0
	for n := range sessions {
		var info struct {
			Error  string
			Offset int
			Totals struct{ Bits float64 }
		}
		r.ask(http.MethodGet, "/v1/sessions/"+r.ids[n], "", &info)
		if info.Error != "" {
			require.Equal(t, http.StatusConflict, r.feed(n, after))
			continue
		}
		whole++
		require.Equal(t, r.at[n], info.Offset, "what was acknowledged is there")
		if n > 0 {
			require.Equal(t, r.want[n], info.Totals.Bits)
		}
		require.Equal(t, http.StatusOK, r.feed(n, after))
	}
	t.Logf("%d sessions of %d are whole; all fed %v after the damage", whole, sessions,
		time.Since(began).Round(time.Millisecond))
	require.Less(t, whole, sessions)
	require.Greater(t, whole, sessions*2/3)
	for n := range sessions { // one that nothing has happened to has the same bits
		if r.at[n] < after || n%10 != 1 {
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

// A folder that is damaged again and again ends the server.
func TestAServerThatFindsDamageAgainAndAgainEnds(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	t.Parallel()
	r := newReopening(t, 20)
	for n := range 20 {
		require.Equal(t, http.StatusOK, r.feed(n, 800))
	}
	for n := range reopeningsMax {
		r.damage(n * 5)
		r.openedAgain(n + 1)
	}
	r.damage(19)
	done := make(chan error, 1)
	go func() { done <- r.cmd.Wait() }()
	select {
	case err := <-done:
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
		require.Equal(t, exitFailure, exit.ExitCode(), "%s", &r.log)
	case <-time.After(time.Minute):
		t.Fatalf("it goes on: %s", &r.log)
	}
	require.Contains(t, r.log.String(), "the store has failed")
}
