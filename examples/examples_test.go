// Package examples_test runs the examples against a server with the embedded model swift. It skips
// examples whose runtime is not installed.
package examples_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server"
)

const strange = "sshd[812]: Failed password for root from 203.0.113.9 port 4242 ../../etc/passwd"

// log returns a log of similar lines, with the strange line near the end.
func log() string {
	var b strings.Builder
	for i := range 130 {
		if i == 120 {
			fmt.Fprintln(&b, strange)
		}
		user := []string{"alice", "bob", "carol"}[i*i%7%3]
		fmt.Fprintf(&b, "sshd[812]: Accepted key for %s from 10.0.0.%d\n", user, i*i%11)
	}
	return b.String()
}

type example struct {
	dir   string
	url   string
	cuts  *atomic.Int64
	mg    *session.Manager
	input string
}

func newExample(t *testing.T) *example {
	t.Helper()
	if testing.Short() {
		t.Skip("starts processes, and a server with an embedded model")
	}
	m, err := model.Place{Name: "swift"}.Load()
	require.NoError(t, err)
	mg, err := session.NewManager(m, session.Options{})
	require.NoError(t, err)
	s, err := server.New(mg, server.Options{})
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.NoError(t, s.Drain(ctx))
		require.NoError(t, <-served)
	})
	dir, err := filepath.Abs(".")
	require.NoError(t, err)
	return &example{dir: dir, url: "http://" + l.Addr().String(), cuts: new(atomic.Int64), mg: mg}
}

// run runs a program in the folder of the examples, and returns its output. The test is skipped if
// the program is not installed.
func (e *example) run(t *testing.T, program string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("not run: %v", err)
	}
	var out, failures bytes.Buffer
	run := exec.CommandContext(t.Context(), path, args...)
	run.Dir, run.Stdin, run.Stdout, run.Stderr = e.dir, strings.NewReader(e.input), &out, &failures
	run.Env = append(os.Environ(), "LMSERVE_URL="+e.url)
	require.NoError(t, run.Run(), failures.String())
	return out.String()
}

func (e *example) requireLog(t *testing.T, name string) {
	t.Helper()
	info, err := e.mg.Get(session.Caller{}, name)
	require.NoError(t, err)
	require.EqualValues(t, len(log()), info.Offset)
}

// behindCuts puts a proxy in front of the server. The proxy cuts off, in the middle, the first two
// answers that are longer than 3,000 bytes.
func (e *example) behindCuts(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	to := strings.TrimPrefix(e.url, "http://")
	e.url = "http://" + l.Addr().String()
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go e.forward(client, to)
		}
	}()
}

func (e *example) forward(client net.Conn, to string) {
	defer client.Close()
	server, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(server, client)
		_ = server.(*net.TCPConn).CloseWrite()
	}()
	n, err := io.CopyN(client, server, 3000)
	if err == nil && n == 3000 && e.cuts.Add(1) > 2 {
		_, _ = io.Copy(client, server)
	}
}

func logFile(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "log")
	require.NoError(t, os.WriteFile(path, []byte(log()), 0o600))
	return path
}

func TestWatchWithCurl(t *testing.T) {
	e := newExample(t)
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skipf("not run: %v", err)
	}
	e.input = log()
	out := e.run(t, "sh", "watch.sh", "ssh", "0.01")
	require.Contains(t, out, strange)
	require.LessOrEqual(t, strings.Count(out, "\n"), 3, out)
	e.requireLog(t, "ssh")
}

func TestWatchInProcess(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program, and loads an embedded model")
	}
	e := &example{input: log()}
	out := e.run(t, "go", "run", "./inprocess")
	require.Contains(t, out, strange)
	require.LessOrEqual(t, strings.Count(out, "\n"), 2, out)
}

func TestResumeInGo(t *testing.T) {
	e := newExample(t)
	e.behindCuts(t)
	resumes(t, e, "go", "run", "./resume", logFile(t), "ssh", "0.01")
}

func TestResumeInPython(t *testing.T) {
	e := newExample(t)
	e.behindCuts(t)
	resumes(t, e, "python3", "resume.py", logFile(t), "ssh", "0.01")
}

// resumes runs an example over connections that break. Then resumes runs the example again: the
// session already has the whole text, so no text is sent.
func resumes(t *testing.T, e *example, program string, args ...string) {
	t.Helper()
	out := e.run(t, program, args...)
	require.Contains(t, out, "from byte 0\n")
	require.Contains(t, out, strange)
	require.GreaterOrEqual(t, e.cuts.Load(), int64(2))
	e.requireLog(t, "ssh")
	at := fmt.Sprint(len(log()))
	require.Equal(t, "from byte "+at+"\nup to byte "+at+"\n", e.run(t, program, args...))
}

func TestOpenAIsShapesInPython(t *testing.T) {
	e := newExample(t)
	e.input = log()
	out := e.run(t, "python3", "openai_shapes.py", "ssh", "sshd[812]: Acc")
	require.Contains(t, out, "sshd[812]: Accepted key for ")
	require.Contains(t, out, "nats a byte")
	e.requireLog(t, "ssh")
}

func TestCompleteInJavaScript(t *testing.T) {
	e := newExample(t)
	e.input = strings.Join(strings.SplitAfter(log(), "\n")[:12], "")
	out := e.run(t, "node", "complete.mjs", "ssh")
	require.Contains(t, out, "  next: sshd[812]: Accepted key for ", "as the lines have it")
}

func TestOpenAIsOwnClientInJavaScript(t *testing.T) {
	e := newExample(t)
	e.input = log()
	e.run(t, "python3", "openai_shapes.py", "ssh", "sshd") // feeds the log to session ssh
	out := e.runWithOpenAI(t, "openai.mjs", "ssh", "sshd[812]: Acc")
	require.Contains(t, out, "sshd[812]: Accepted key for ")
}

func TestOpenAIsOwnClientTeaches(t *testing.T) {
	e := newExample(t)
	e.input = log()
	out := e.runWithOpenAI(t, "openai_learn.mjs", "ssh")
	require.Contains(t, out, "sshd[812]: Accepted ke[y for bob from 10.0.0.")
	e.requireLog(t, "ssh")
}

// runWithOpenAI runs an example with OpenAI's client, which `make test-openai` downloads.
func (e *example) runWithOpenAI(t *testing.T, name string, args ...string) string {
	t.Helper()
	modules, err := filepath.Abs("../server/testdata/openai/node_modules")
	require.NoError(t, err)
	if _, err := os.Stat(filepath.Join(modules, "openai")); err != nil {
		t.Skipf("not run, make test-openai fetches the client: %v", err)
	}
	script, err := os.ReadFile(name)
	require.NoError(t, err)
	e.dir = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(e.dir, name), script, 0o600))
	require.NoError(t, os.Symlink(modules, filepath.Join(e.dir, "node_modules")))
	return e.run(t, "node", append([]string{name}, args...)...)
}
