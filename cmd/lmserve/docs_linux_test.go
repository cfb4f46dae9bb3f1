package main

import (
	"bufio"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// operationsPage is the page whose commands are run.
const operationsPage = "../../docs/operations.md"

// documentedCommand is a command of a page, and what the page says it prints.
type documentedCommand struct {
	text string
	want []string
}

// documentedCommands reads the blocks of a section that begin with ```console.
func documentedCommands(section string) (all []documentedCommand) {
	inside := false
	for line := range strings.SplitSeq(section, "\n") {
		switch {
		case strings.HasPrefix(line, "```"):
			inside = line == "```console"
		case inside && strings.HasPrefix(line, "$ "):
			all = append(all, documentedCommand{text: line[2:]})
		case inside && len(all) > 0:
			last := &all[len(all)-1]
			last.want = append(last.want, line)
		}
	}
	return all
}

// What differs from run to run, and is compared by its form alone.
var (
	anySession = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	anyDate    = regexp.MustCompile(`\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?Z?`)
	anyHex     = regexp.MustCompile(`\b([0-9a-f]{12,64}|[0-9a-f]{8})\b`)
	anyNumber  = regexp.MustCompile(`\b\d{4,}\b`)
	anySize    = regexp.MustCompile(`\b\d+ bytes\b`)
	// Progress is told on a busy machine alone.
	anyProgress = regexp.MustCompile(`^lmserve: .*, \d+\w* (left|so far)$`)
	anySpaces   = regexp.MustCompile(` +`)
)

func formOf(line string) string {
	line = anySession.ReplaceAllString(line, "SESSION")
	line = anyDate.ReplaceAllString(line, "DATE")
	line = anySize.ReplaceAllString(line, "NUMBER bytes")
	line = anyHex.ReplaceAllString(line, "HEX")
	line = anyNumber.ReplaceAllString(line, "NUMBER")
	return strings.TrimRight(anySpaces.ReplaceAllString(line, " "), " ")
}

// shell is a bash that a page's commands are typed into.
type shell struct {
	t     *testing.T
	in    io.Writer
	lines chan string
}

// newShell starts one in a folder that has the program as bin/lmserve.
func newShell(t *testing.T, program string) *shell {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "bin"), 0o700))
	content, err := os.ReadFile(program)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bin", "lmserve"), content, 0o700))
	cmd := exec.Command("bash")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_STATE_HOME="+filepath.Join(dir, "state"), "XDG_CONFIG_HOME="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, outWriter, err := os.Pipe()
	require.NoError(t, err)
	cmd.Stdout, cmd.Stderr = outWriter, outWriter
	require.NoError(t, cmd.Start())
	require.NoError(t, outWriter.Close())
	s := &shell{t: t, in: in, lines: make(chan string)}
	go func() {
		defer close(s.lines)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			s.lines <- scan.Text()
		}
	}()
	t.Cleanup(func() {
		_, _ = io.WriteString(in, "kill %1 2>/dev/null; wait\n")
		_ = in.Close()
		timer := time.AfterFunc(time.Minute, func() { _ = out.Close() })
		defer timer.Stop()
		for range s.lines { // until nobody holds the other end
		}
		_ = cmd.Wait()
		_ = out.Close()
	})
	s.run("set -m", 0)
	return s
}

// run types a command, and gives what it prints. For what goes on in the background, that is so
// many lines.
func (s *shell) run(command string, lines int) (got []string) {
	const end = "---- the command has ended"
	_, err := io.WriteString(s.in, command+"\n")
	require.NoError(s.t, err)
	background := strings.HasSuffix(command, "&")
	marked := false
	for {
		if !marked && (!background || len(got) >= lines) {
			after := "echo; echo '" + end + "'\n"
			if strings.HasPrefix(command, "kill %") { // the next command finds the server gone
				after = "wait; " + after
			}
			_, err := io.WriteString(s.in, after)
			require.NoError(s.t, err)
			marked = true
		}
		select {
		case line, ok := <-s.lines:
			require.True(s.t, ok, "%s: the shell has ended after %q", command, got)
			if line == end {
				for len(got) > 0 && got[len(got)-1] == "" {
					got = got[:len(got)-1]
				}
				return got
			}
			if !anyProgress.MatchString(line) {
				got = append(got, line)
			}
		case <-time.After(time.Minute):
			require.FailNow(s.t, "it does not end", "%s: %q", command, got)
		}
	}
}

// Every command of the page on operations works as printed, section by section. Ids, dates and long
// numbers are compared by their form.
func TestTheCommandsOfThePageOnOperationsWorkAsPrinted(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	for _, tool := range strings.Fields("base64 bash curl dd grep jq sed seq sha256sum tar zstd") {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	page, err := os.ReadFile(operationsPage)
	require.NoError(t, err)
	program := filepath.Join(t.TempDir(), "lmserve")
	out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	ran := 0
	for _, section := range strings.Split(string(page), "\n## ")[1:] {
		title, _, _ := strings.Cut(section, "\n")
		all := documentedCommands(section)
		if len(all) == 0 {
			continue
		}
		t.Run(title, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			_, port, err := net.SplitHostPort(l.Addr().String())
			require.NoError(t, err)
			require.NoError(t, l.Close())
			s := newShell(t, program)
			for _, c := range all {
				c.text = strings.ReplaceAll(c.text, ":8080", ":"+port) // one that is free here
				c.text = strings.ReplaceAll(c.text, "bin/lmserve serve ",
					"bin/lmserve serve --listen 127.0.0.1:"+port+" ")
				got := s.run(c.text, len(c.want))
				for n := range got {
					got[n] = formOf(strings.ReplaceAll(got[n], ":"+port, ":8080"))
				}
				var want []string
				for _, line := range c.want {
					want = append(want, formOf(line))
				}
				require.Equal(t, strings.Join(want, "\n"), strings.Join(got, "\n"), "$ %s", c.text)
				ran++
			}
		})
	}
	require.Greater(t, ran, 20)
}
