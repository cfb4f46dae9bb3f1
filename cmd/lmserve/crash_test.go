//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/model"
	"github.com/lmserve/lmserve/internal/model/modeltest"
	"github.com/lmserve/lmserve/internal/session"
	"github.com/lmserve/lmserve/internal/sessionlog"
	"github.com/lmserve/lmserve/internal/stream"
	"github.com/lmserve/lmserve/weights"
)

// A real server is killed with SIGKILL at random moments while clients feed sessions: after every
// start all that was acknowledged is there, and all it ever says has the bits of a stream that
// nothing ever happened to. LMSERVE_CRASH_ROUNDS says how often, LMSERVE_CRASH_SEED repeats the
// moments.
func TestAServerThatIsKilledLosesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	rounds := environmentNumber(t, "LMSERVE_CRASH_ROUNDS", 3)
	seed := environmentNumber(t, "LMSERVE_CRASH_SEED", time.Now().UnixNano())
	t.Logf("%d rounds, LMSERVE_CRASH_SEED=%d", rounds, seed)
	c := newCrash(t, uint64(seed))
	began := time.Now()
	for n := range rounds {
		c.round(crashKinds[(c.first+int(n))%len(crashKinds)])
		if c.rand.IntN(10) == 0 || n+1 == rounds {
			c.look()
		}
		require.False(t, t.Failed(), "in round %d", n)
	}
	c.end()
	bytes, answers, cuts, forks := 0, 0, 0, 0
	for _, cl := range c.clients {
		bytes, answers, cuts, forks = bytes+cl.bytes, answers+cl.answers, cuts+cl.cuts, forks+cl.forks
		cl.worker.Close()
	}
	t.Logf("%d kills %v in %v: %d bytes acknowledged in %d answers, %d requests cut off, %d snapshots being written, %d states compared, %d forks",
		rounds, c.kinds, time.Since(began).Round(time.Millisecond), bytes, answers, cuts, c.torn, c.compared, forks)
	require.Positive(t, bytes)
	require.Positive(t, c.compared)
}

func environmentNumber(t *testing.T, name string, otherwise int64) int64 {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseInt(text, 10, 64)
	require.NoError(t, err, name)
	return n
}

// crashKinds are the moments at which a server is killed.
var crashKinds = []string{
	"starting",  // before it listens
	"returning", // as the first requests bring sessions back
	"working",   // at any time
	"keeping",   // as a snapshot is being written
	"draining",  // in the middle of a clean end
}

// crash is a server that is killed, and the clients that go on.
type crash struct {
	t       *testing.T
	rand    *rand.Rand
	first   int // of the kinds
	program string
	weights string
	dir     string
	model   *model.Model
	startup time.Duration // that a start takes
	clients []*client
	events  atomic.Int64 // that clients were told of

	kinds map[string]int

	torn, compared int
}

// buildAsTested is the go command's arguments that build with the tags of this test, so that
// the server's bits are those of the model here, and with its race detector, so that a race ends
// up among the complaints.
func buildAsTested(t *testing.T) []string {
	info, ok := debug.ReadBuildInfo()
	require.True(t, ok, "a test binary knows how it was built")
	args := []string{"build"}
	for _, s := range info.Settings {
		switch s.Key {
		case "-tags", "-race":
			args = append(args, s.Key+"="+s.Value)
		}
	}
	return args
}

func newCrash(t *testing.T, seed uint64) *crash {
	c := &crash{t: t, rand: rand.New(rand.NewPCG(seed, 0)), kinds: map[string]int{}}
	c.first = c.rand.IntN(len(crashKinds))
	folder := t.TempDir()
	c.program, c.weights, c.dir = filepath.Join(folder, "lmserve"), filepath.Join(folder, "small.safetensors"), filepath.Join(folder, "data")
	build := exec.Command("go", append(buildAsTested(t), "-o", c.program, ".")...)
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	c.model, err = modeltest.Small()
	require.NoError(t, err)
	require.NoError(t, weights.WriteFile(c.weights, c.model.File(), weights.WriteOptions{}))
	for n := range 8 {
		c.clients = append(c.clients, newClient(c, seed, uint64(n+1)))
	}
	began := time.Now()
	p := c.start(0)
	c.startup = time.Since(began)
	p.kill()
	p.wait(t)
	require.NoError(t, os.RemoveAll(c.dir)) // its making may be cut off, too
	return c
}

// budget is memory for three states of the largest kind.
func (c *crash) budget() (most int64) {
	for _, k := range settingsKinds {
		most = max(most, stream.StateBytes(c.model, k.settings(c.model, 0)))
	}
	return 3 * most
}

// serverProcess is one life of the server.
type serverProcess struct {
	cmd    *exec.Cmd
	url    string // "" if it was killed before it listened
	stderr bytes.Buffer
	end    chan struct{} // closed when it has said its last word
	cut    atomic.Bool   // from now on requests may fail
	clean  bool          // it may also have ended by itself
}

// start starts the server; unless it is to be killed after some time, it is listening then.
func (c *crash) start(killAfter time.Duration) *serverProcess {
	p := &serverProcess{end: make(chan struct{})}
	p.cmd = exec.Command(c.program, "serve", "--listen", "127.0.0.1:0", "--model", c.weights, "--data-dir", c.dir, "--log", "json", "--threads", "2",
		"--replay-max", []string{"1ns", "1ns", "1ms", "10s"}[c.rand.IntN(4)],
		"--memory-budget", fmt.Sprint([]int64{c.budget(), c.budget(), 64 << 20}[c.rand.IntN(3)]))
	p.cmd.Stderr = &p.stderr
	out, err := p.cmd.StdoutPipe()
	require.NoError(c.t, err)
	require.NoError(c.t, p.cmd.Start())
	first := make(chan string, 1)
	go func() {
		defer close(p.end)
		r := bufio.NewReader(out)
		line, _ := r.ReadString('\n')
		first <- line
		_, _ = io.Copy(io.Discard, r)
	}()
	if killAfter > 0 {
		defer time.AfterFunc(killAfter, p.kill).Stop()
	}
	select {
	case line := <-first:
		if at := strings.Index(line, "http://"); at >= 0 && strings.HasSuffix(line, "\n") {
			p.url = strings.TrimSpace(line[at:])
		}
	case <-time.After(time.Minute):
		p.kill()
	}
	if killAfter == 0 && p.url == "" {
		p.kill()
		p.wait(c.t)
		require.Fail(c.t, "the server does not start", p.stderr.String())
	}
	return p
}

func (p *serverProcess) kill() {
	p.cut.Store(true)
	_ = p.cmd.Process.Kill() // it may have gone
}

// terminate asks for a clean end.
func (p *serverProcess) terminate() {
	p.cut.Store(true)
	p.clean = true
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
}

// wait waits for the end of a process, which it must not have come to by itself, nor with a
// complaint.
func (p *serverProcess) wait(t *testing.T) {
	<-p.end
	err := p.cmd.Wait()
	status := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	killed := status.Signaled() && status.Signal() == syscall.SIGKILL
	require.True(t, killed || p.clean && err == nil, "%v\n%s", err, p.stderr.String())
	for line := range strings.Lines(p.stderr.String()) {
		var entry struct{ Level string }
		partly := !strings.HasSuffix(line, "\n")
		if err := json.Unmarshal([]byte(line), &entry); (err != nil && !partly) || (err == nil && entry.Level != "info") {
			require.Fail(t, "the server complains", p.stderr.String())
		}
	}
}

// round is one life of the server.
func (c *crash) round(kind string) {
	c.kinds[kind]++
	after := time.Duration(0)
	if kind == "starting" {
		after = time.Duration(1 + c.rand.Int64N(int64(c.startup)*5/4))
	}
	p := c.start(after)
	if p.url == "" {
		p.wait(c.t)
		return
	}
	var wait sync.WaitGroup
	for _, cl := range c.clients {
		wait.Go(func() { cl.run(p) })
	}
	switch kind {
	case "starting", "returning":
	case "keeping":
		c.progress(200)
		c.aSnapshotBegins(300 * time.Millisecond)
	case "draining":
		c.progress(200)
		p.terminate()
		c.pause(30 * time.Millisecond)
	default:
		c.progress(400)
	}
	c.pause(10 * time.Millisecond)
	p.kill()
	wait.Wait()
	p.wait(c.t)
	c.torn += len(c.unfinished())
}

// progress waits until the clients were told something for a random number of times.
func (c *crash) progress(most int64) {
	until := c.events.Load() + c.rand.Int64N(most)
	for began := time.Now(); c.events.Load() < until && time.Since(began) < time.Minute; {
		time.Sleep(100 * time.Microsecond)
	}
}

// pause waits for a random time.
func (c *crash) pause(most time.Duration) { time.Sleep(time.Duration(c.rand.Int64N(int64(most)))) }

// unfinished are the snapshots that are being written.
func (c *crash) unfinished() []string {
	names, err := filepath.Glob(filepath.Join(c.dir, "snapshots", "*.tmp"))
	require.NoError(c.t, err)
	return names
}

// aSnapshotBegins waits until one is being written. With a long --replay-max none will be.
func (c *crash) aSnapshotBegins(most time.Duration) {
	for began := time.Now(); time.Since(began) < most && len(c.unfinished()) == 0; {
		time.Sleep(100 * time.Microsecond)
	}
}

// look opens what a killed server left, as it is, and compares every session's state; some are
// forked.
func (c *crash) look() {
	t := c.t
	stdout, stderr, code := lmserve("", "sessions", "check", "--data-dir", c.dir, "--model", c.weights)
	require.Zero(t, code, "%s%s", stdout, stderr)
	store, err := sessionlog.Open(c.dir, sessionlog.Options{})
	require.NoError(t, err)
	mg, err := session.NewManager(c.model, session.Options{Store: store, ReplayMax: time.Hour, Report: func(err error) { t.Error(err) }})
	require.NoError(t, err)
	for _, cl := range c.clients {
		cl.compare(mg)
	}
	require.NoError(t, mg.Drain(t.Context()))
	require.NoError(t, store.Close())
}

// end lets the server live, and go in peace.
func (c *crash) end() {
	p := c.start(0)
	for _, cl := range c.clients {
		require.NoError(c.t, cl.askAll(p))
	}
	p.terminate()
	p.wait(c.t)
	require.Zero(c.t, p.cmd.ProcessState.ExitCode())
	c.look()
	out, stderr, code := lmserve("", "sessions", "replay", "--data-dir", c.dir, "--model", c.weights)
	require.Zero(c.t, code, "%s%s", out, stderr)
	require.Empty(c.t, c.unfinished(), "what was left is gone")
}
