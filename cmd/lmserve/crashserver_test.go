//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// asTested are the flags of go build that build with the tags of this test, so that the server's
// bits are those of the model here, and with its race detector, so that a race ends up among the
// complaints.
func asTested(t *testing.T) (flags []string) {
	info, ok := debug.ReadBuildInfo()
	require.True(t, ok, "a test binary knows how it was built")
	for _, s := range info.Settings {
		switch s.Key {
		case "-tags", "-race":
			flags = append(flags, s.Key+"="+s.Value)
		}
	}
	return flags
}

// builds are the programs that tests have built, by their flags.
var builds = struct {
	sync.Mutex
	programs map[string]string
}{programs: map[string]string{}}

// built is the path of lmserve, built with these flags once for all tests.
func built(t *testing.T, flags ...string) string {
	builds.Lock()
	defer builds.Unlock()
	key := strings.Join(flags, " ")
	if builds.programs[key] == "" {
		program := filepath.Join(home, fmt.Sprintf("lmserve-%d", len(builds.programs)))
		args := slices.Concat([]string{"build", "-o", program}, flags, []string{"."})
		out, err := exec.Command("go", args...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		builds.programs[key] = program
	}
	return builds.programs[key]
}

// recording runs a command to its end and records what it does to files.
type recording func(cmd *exec.Cmd, began func(*os.Process)) (syscall.WaitStatus, error)

// serverProcess is one life of the server.
type serverProcess struct {
	process *os.Process
	url     string // "" if it was killed before it listened
	stderr  bytes.Buffer
	end     chan struct{} // closed when it has ended and has said its last word
	cut     atomic.Bool   // from now on requests may fail
	clean   bool          // it may also have ended by itself
	damaged bool          // it may complain of damage

	status syscall.WaitStatus // set before end is closed
	err    error
	killed bool // set by wait
}

// start starts the server. It is listening then, unless it has a fate, which may kill it before.
func (c *crash) start(fate func(*serverProcess)) *serverProcess {
	p := &serverProcess{end: make(chan struct{}), damaged: c.damaged}
	cmd := exec.Command(c.program, "serve", "--listen", "127.0.0.1:0", "--model", c.weights,
		"--data-dir", c.dir, "--log-format", "json", "--threads", "2",
		"--max-replay", []string{"1ns", "1ns", "1ms", "10s"}[c.rand.IntN(4)],
		"--memory-budget", fmt.Sprint([]int64{c.budget(), c.budget(), 64 << 20}[c.rand.IntN(3)]))
	first := make(chan string, 1)
	p.run(c.t, cmd, c.record, first)
	if fate != nil {
		go fate(p)
	}
	select {
	case line := <-first:
		if at := strings.Index(line, "http://"); at >= 0 && strings.HasSuffix(line, "\n") {
			p.url = strings.TrimSpace(line[at:])
		}
	case <-time.After(time.Minute):
		p.kill()
	}
	if fate == nil && p.url == "" {
		p.kill()
		<-p.end
		require.Fail(c.t, "the server does not start", p.stderr.String())
	}
	return p
}

// run begins to run the command, whose first line is sent.
func (p *serverProcess) run(t *testing.T, cmd *exec.Cmd, record recording, first chan<- string) {
	out, to, err := os.Pipe()
	require.NoError(t, err)
	complaints, toComplaints, err := os.Pipe()
	require.NoError(t, err)
	cmd.Stdout, cmd.Stderr = to, toComplaints
	began, said := make(chan *os.Process, 1), make(chan struct{})
	go func() {
		defer close(said)
		_, _ = io.Copy(&p.stderr, complaints)
	}()
	go func() {
		defer close(p.end)
		if record == nil {
			record = plainly
		}
		p.status, p.err = record(cmd, func(process *os.Process) { began <- process })
		close(began)
		_ = errors.Join(to.Close(), toComplaints.Close())
		<-said
	}()
	go func() {
		defer out.Close()
		r := bufio.NewReader(out)
		line, _ := r.ReadString('\n')
		first <- line
		_, _ = io.Copy(io.Discard, r)
	}()
	p.process = <-began
	require.NotNil(t, p.process, "%v", p.err)
}

// plainly is a recording of nothing.
func plainly(cmd *exec.Cmd, began func(*os.Process)) (syscall.WaitStatus, error) {
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	began(cmd.Process)
	_ = cmd.Wait() // the status tells
	return cmd.ProcessState.Sys().(syscall.WaitStatus), nil
}

func (p *serverProcess) ended() bool {
	select {
	case <-p.end:
		return true
	default:
		return false
	}
}

func (p *serverProcess) kill() {
	p.cut.Store(true)
	_ = p.process.Kill() // it may have gone
}

// terminate asks for a clean end.
func (p *serverProcess) terminate() {
	p.cut.Store(true)
	p.clean = true
	_ = p.process.Signal(syscall.SIGTERM)
}

// wait waits for the end of a process, which it must not have come to by itself, nor with a
// complaint.
func (p *serverProcess) wait(t *testing.T) {
	<-p.end
	p.killed = p.status.Signaled() && p.status.Signal() == syscall.SIGKILL
	ok := p.killed || p.clean && p.status.ExitStatus() == 0
	require.True(t, ok && p.err == nil, "%v %v\n%s", p.status, p.err, p.stderr.String())
	for line := range strings.Lines(p.stderr.String()) {
		var entry struct{ Level string }
		partly := !strings.HasSuffix(line, "\n")
		err := json.Unmarshal([]byte(line), &entry)
		if err != nil && !partly || err == nil && entry.Level != "info" && !p.damaged {
			require.Fail(t, "the server complains", p.stderr.String())
		}
	}
}
