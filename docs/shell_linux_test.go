package docs_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// home is the home folder in the outputs on the pages. It replaces the real home folder in the
// test's outputs.
const home = "/home/alice"

// port matches the port of a local server in a command on a page.
var port = regexp.MustCompile(
	`((?:localhost|127\.0\.0\.1|::\]|--listen |--admin-listen ):)(8080|8443|9090)\b`)

// progress matches lines that commands print only on a busy machine.
var progress = regexp.MustCompile(
	`^lmserve: .*([,:] \d+\w* (left|so far)| are scored.*|: up to date)$`)

type shell struct {
	t     *testing.T
	dir   string
	in    io.Writer
	lines chan string
	// free ports that replace the ports on the pages; the keys are the ports on the pages
	ports map[string]string
}

func newShell(t *testing.T, dir string) *shell {
	s := &shell{t: t, dir: dir, lines: make(chan string), ports: map[string]string{}}
	cmd := exec.Command("bash")
	cmd.Dir = dir
	user := filepath.Join(dir, ".home")
	require.NoError(t, os.MkdirAll(filepath.Join(user, "tmp"), 0o700))
	// HOME changes below, but commands that build programs still use the current Go cache
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	path, err := exec.Command("go", "env", "GOPATH").Output()
	require.NoError(t, err)
	cmd.Env = append(os.Environ(), "HOME="+user, "XDG_CACHE_HOME="+cache, "GOPATH="+
		strings.TrimSpace(string(path)),
		"XDG_STATE_HOME=", "XDG_CONFIG_HOME=", "GOFLAGS=-trimpath", "LC_ALL=C.UTF-8",
		// a make in the shell must not inherit options of the make that runs this test
		"MAKEFLAGS=", "MFLAGS=", "MAKELEVEL=")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	s.in, err = cmd.StdinPipe()
	require.NoError(t, err)
	out, outWriter, err := os.Pipe()
	require.NoError(t, err)
	cmd.Stdout, cmd.Stderr = outWriter, outWriter
	require.NoError(t, cmd.Start())
	require.NoError(t, outWriter.Close())
	go func() {
		defer close(s.lines)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			s.lines <- scan.Text()
		}
	}()
	t.Cleanup(func() {
		_, _ = io.WriteString(s.in, "for job in $(jobs -p); do kill -- -$job; done 2>/dev/null; "+
			"wait\nexit\n")
		timer := time.AfterFunc(time.Minute, func() {
			kill(cmd.Process.Pid)
			_ = out.Close()
		})
		defer timer.Stop()
		for range s.lines { // waits until every process has closed the pipe
		}
		_ = cmd.Wait()
		_ = out.Close()
	})
	s.run("set -m", 0)
	return s
}

// kill kills a shell that is running a command, and the process groups of all jobs of the shell.
func kill(shell int) {
	jobs, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", shell, shell))
	for job := range strings.FieldsSeq(string(jobs)) {
		if leader, err := strconv.Atoi(job); err == nil {
			_ = syscall.Kill(-leader, syscall.SIGKILL)
		}
	}
	_ = syscall.Kill(shell, syscall.SIGKILL)
}

// here adapts a command on a page to this shell: it replaces ports and the folder for temporary
// files, and makes servers listen on 127.0.0.1.
func (s *shell) here(command string) string {
	command = strings.ReplaceAll(command, "bin/lmserve serve ", "bin/lmserve serve --listen "+
		"127.0.0.1:8080 ")
	command = strings.ReplaceAll(command, "/tmp/", s.dir+"/.home/tmp/")
	return port.ReplaceAllStringFunc(command, func(found string) string {
		m := port.FindStringSubmatch(found)
		if s.ports[m[2]] == "" {
			s.ports[m[2]] = freePort(s.t)
		}
		return m[1] + s.ports[m[2]]
	})
}

// there converts a line of output to the form on the page. It reverses the replacements of the
// method here.
func (s *shell) there(line string) string {
	for documented, free := range s.ports {
		line = strings.ReplaceAll(line, ":"+free, ":"+documented)
	}
	line = strings.ReplaceAll(line, s.dir+"/.home/tmp/", "/tmp/")
	return strings.ReplaceAll(line, s.dir+"/.home", home)
}

func freePort(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// run runs a command and returns its output and exit code. For a command in the background, run
// returns after the given number of output lines.
func (s *shell) run(command string, lines int) (got []string, code int) {
	const end = "---- the command has ended: "
	_, err := io.WriteString(s.in, s.here(command)+"\n")
	require.NoError(s.t, err)
	background := strings.HasSuffix(command, "&")
	marked := false
	for {
		if !marked && (!background || len(got) >= lines) {
			after := "code=$?\n"
			// The shell waits for the killed job, so that bash does not report the job's end during
			// the next command.
			if strings.HasPrefix(command, "kill %") {
				after += "wait " + strings.TrimPrefix(command, "kill ") + " 2>/dev/null\n"
			}
			_, err := io.WriteString(s.in, after+"echo; echo '"+end+"'$code\n")
			require.NoError(s.t, err)
			marked = true
		}
		select {
		case line, ok := <-s.lines:
			require.True(s.t, ok, "%s: the shell has ended after %q", command, got)
			if _, err := fmt.Sscanf(line, end+"%d", &code); err == nil {
				for len(got) > 0 && got[len(got)-1] == "" {
					got = got[:len(got)-1]
				}
				return got, code
			}
			if !progress.MatchString(line) {
				got = append(got, s.there(line))
			}
		case <-time.After(5 * time.Minute):
			require.FailNow(s.t, "it does not end", "%s: %q", command, got)
		}
	}
}
