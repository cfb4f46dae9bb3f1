//go:build unix

package program

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Recording runs a command to its end and records its changes to files. It calls `began` when the
// process has started.
type Recording func(cmd *exec.Cmd, began func(*os.Process)) (syscall.WaitStatus, error)

// Process is a server process, running or ended.
type Process struct {
	System *os.Process
	URL    string // "" if the process was killed before it listened
	Stderr bytes.Buffer
	End    chan struct{} // closed after the process has ended and its output was read
	Cut    atomic.Bool   // set before Kill or Terminate ends the process: requests may fail
	Clean  bool          // a clean end was requested

	Status syscall.WaitStatus // set before End is closed
	Killed bool               // set by Wait
	err    error
}

// Serve starts a server and waits until it listens.
func Serve(t testing.TB, path string, flags ...string) *Process {
	p := &Process{}
	args := append([]string{"serve", "--listen", "127.0.0.1:0", "--log", "none", "--data-dir",
		"none"},
		flags...)
	p.URL = Address(<-p.Begin(t, Command(path, args...), nil))
	if p.URL == "" {
		p.Kill()
		<-p.End
		require.Fail(t, "the server does not start", p.Stderr.String())
	}
	return p
}

// Address returns the URL in the first line that a server prints. It returns "" if the line is
// incomplete or has no URL.
func Address(line string) string {
	at := strings.Index(line, "http")
	if at < 0 || !strings.HasSuffix(line, "\n") {
		return ""
	}
	return strings.TrimSpace(line[at:])
}

// Begin starts the command, and sends the first line of its output on a channel. If record is nil,
// changes to files are not recorded.
func (p *Process) Begin(t testing.TB, cmd *exec.Cmd, record Recording) (first <-chan string) {
	p.End = make(chan struct{})
	line := make(chan string, 1)
	out, to, err := os.Pipe()
	require.NoError(t, err)
	complaints, toComplaints, err := os.Pipe()
	require.NoError(t, err)
	cmd.Stdout, cmd.Stderr = to, toComplaints
	began, said := make(chan *os.Process, 1), make(chan struct{})
	go func() {
		defer close(said)
		defer complaints.Close()
		_, _ = io.Copy(&p.Stderr, complaints)
	}()
	go func() {
		defer close(p.End)
		if record == nil {
			record = plainly
		}
		p.Status, p.err = record(cmd, func(process *os.Process) { began <- process })
		close(began)
		_ = errors.Join(to.Close(), toComplaints.Close())
		<-said
	}()
	go func() {
		defer out.Close()
		r := bufio.NewReader(out)
		first, _ := r.ReadString('\n')
		line <- first
		_, _ = io.Copy(io.Discard, r)
	}()
	p.System = <-began
	require.NotNil(t, p.System, "%v", p.err)
	return line
}

func plainly(cmd *exec.Cmd, began func(*os.Process)) (syscall.WaitStatus, error) {
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	began(cmd.Process)
	_ = cmd.Wait() // The exit status is in ProcessState, so the error is not needed.
	return cmd.ProcessState.Sys().(syscall.WaitStatus), nil
}

// Kill kills the process.
func (p *Process) Kill() {
	p.Cut.Store(true)
	_ = p.System.Kill() // The error is ignored, because the process may have ended.
}

// Terminate requests a clean end of the process by SIGTERM.
func (p *Process) Terminate() {
	p.Cut.Store(true)
	p.Clean = true
	_ = p.System.Signal(syscall.SIGTERM)
}

// Stop requests a clean end of the process, and waits until the process has ended.
func (p *Process) Stop(t testing.TB) {
	p.Terminate()
	p.Wait(t)
}

// Wait waits until the process has ended. It fails the test unless the process was killed, or ended
// cleanly on request. Any output to stderr above level info also fails the test.
func (p *Process) Wait(t testing.TB) {
	<-p.End
	p.Killed = p.Status.Signaled() && p.Status.Signal() == syscall.SIGKILL
	ok := p.Killed || p.Clean && p.Status.ExitStatus() == 0
	require.True(t, ok && p.err == nil, "%v %v\n%s", p.Status, p.err, p.Stderr.String())
	for line := range strings.Lines(p.Stderr.String()) {
		var entry struct{ Level string }
		partly := !strings.HasSuffix(line, "\n")
		err := json.Unmarshal([]byte(line), &entry)
		if err != nil && !partly || err == nil && entry.Level != "info" {
			require.Fail(t, "the server complains", p.Stderr.String())
		}
	}
}
