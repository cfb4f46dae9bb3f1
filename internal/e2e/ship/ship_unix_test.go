//go:build unix

package ship

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/e2e/program"
)

// feed is a growing log, a shipper that reads the log, and a server that is killed meanwhile.
type feed struct {
	t       *testing.T
	folder  string
	port    string
	lmserve string
	server  *program.Process
	shipper *exec.Cmd
	output  bytes.Buffer

	written int
	log     *os.File
	rounds  int       // restarts of the server; unused if a duration is set
	end     time.Time // end of a feed with a set duration, otherwise zero
}

// duration names an environment variable with the duration of a longer feed, such as 20m. A longer
// feed writes fewer lines between restarts, and restarts the server more often.
const duration = "LMSERVE_SHIP_FOR"

func newFeed(t *testing.T, rounds int) *feed {
	if testing.Short() {
		t.Skip("slow")
	}
	f := &feed{t: t, folder: t.TempDir(), rounds: rounds}
	if text := os.Getenv(duration); text != "" {
		length, err := time.ParseDuration(text)
		require.NoError(t, err, duration)
		f.end = time.Now().Add(length)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, f.port, err = net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	require.NoError(t, l.Close())
	f.lmserve = program.Built(t, program.AsTested(t)...)
	f.log, err = os.Create(filepath.Join(f.folder, "app.log"))
	require.NoError(t, err)
	f.serve()
	t.Cleanup(func() {
		f.endShipper(syscall.SIGKILL)
		f.server.Kill()
		f.server.Wait(t)
		require.NoError(t, f.log.Close())
		if t.Failed() {
			t.Log(f.output.String())
		}
	})
	return f
}

func (f *feed) serve() {
	f.server = program.Serve(f.t, f.lmserve, "--data-dir", filepath.Join(f.folder, "data"),
		"--listen", "127.0.0.1:"+f.port, "--log-sessions", "counts")
}

func (f *feed) restart(kill bool) {
	if kill {
		f.server.Kill()
		f.server.Wait(f.t)
	} else {
		f.server.Stop(f.t)
	}
	f.serve()
}

func (f *feed) ship(path string, args ...string) {
	f.shipper = program.Command(path, args...)
	f.shipper.Stdout, f.shipper.Stderr = &f.output, &f.output
	require.NoError(f.t, f.shipper.Start())
}

func (f *feed) endShipper(signal os.Signal) {
	if f.shipper != nil && f.shipper.ProcessState == nil {
		_ = f.shipper.Process.Signal(signal)
		_ = f.shipper.Wait()
	}
}

func (f *feed) more(finished int) bool {
	if f.end.IsZero() {
		return finished < f.rounds
	}
	if finished%50 == 0 {
		f.t.Logf("%d lines, %d restarts of the server", f.written, finished)
	}
	return time.Now().Before(f.end)
}

// feed appends lines to the log and gives the shipper time to read a part of them. A feed with a
// set duration writes at random intervals, to vary the moment of the next restart.
func (f *feed) feed(lines int) {
	if f.end.IsZero() {
		f.write(lines)
		time.Sleep(700 * time.Millisecond)
		return
	}
	for range 1 + rand.IntN(20) {
		f.write(1 + rand.IntN(lines/20))
		time.Sleep(time.Duration(rand.IntN(400)) * time.Millisecond)
	}
}

func (f *feed) write(lines int) {
	for range lines {
		f.written++
		_, err := fmt.Fprintln(f.log, line(f.written))
		require.NoError(f.t, err)
	}
}

func line(n int) string { return fmt.Sprintf("line %d of user%d: a=b&c", n, n%7) }

func (f *feed) text(session string) (text string) {
	for {
		resp, err := http.Get(fmt.Sprintf("%s/v1/sessions/%s/text?length=1048576&offset=%d",
			f.server.URL,
			session, len(text)))
		require.NoError(f.t, err)
		part, err := io.ReadAll(resp.Body)
		require.NoError(f.t, err)
		require.NoError(f.t, resp.Body.Close())
		if resp.StatusCode != http.StatusOK || len(part) == 0 {
			return text
		}
		text += string(part)
	}
}

// once waits until a session has all lines, and checks that the session has each line once. It
// fails if no new line arrives for a minute.
//
// A shipper may send an interrupted batch again, after later lines. The first attempt may leave
// part of a line. once accepts at most `moves` parts and `moves` late batches.
func (f *feed) once(session string, moves int) {
	var want strings.Builder
	for n := range f.written {
		want.WriteString(line(n+1) + "\n")
	}
	have, last := 0, time.Now()
	for have < f.written && time.Since(last) < time.Minute {
		time.Sleep(100 * time.Millisecond)
		if lines := strings.Count(f.text(session), "a=b&c\n"); lines > have {
			have, last = lines, time.Now()
		}
	}
	require.GreaterOrEqual(f.t, have, f.written, "lines of the session; no more for a minute")
	time.Sleep(time.Second) // a shipper may still send repeated lines
	wanted, got := strings.Split(want.String(), "\n"), strings.Split(f.text(session), "\n")
	cut := len(got)
	got = slices.DeleteFunc(got, func(text string) bool {
		return text != "" && text != line(numberOf(text)) && isCut(text, f.written)
	})
	cut -= len(got)
	require.LessOrEqual(f.t, cut, moves, "lines in part")
	moved := 0
	for i := 1; i < len(got)-1; i++ {
		if numberOf(got[i]) < numberOf(got[i-1]) {
			f.t.Logf("line %d follows line %d", numberOf(got[i]), numberOf(got[i-1]))
			moved++
		}
	}
	require.LessOrEqual(f.t, moved, moves, "batches behind later ones")
	slices.SortStableFunc(got[:len(got)-1], func(a, b string) int {
		return cmp.Compare(numberOf(a), numberOf(b))
	})
	for i := range min(len(wanted), len(got)) {
		require.Equal(f.t, wanted[i], got[i], "line %d", i+1)
	}
	require.Len(f.t, got, len(wanted))
}

func isCut(text string, written int) bool {
	for n := range written {
		if strings.HasPrefix(line(n+1), text) {
			return true
		}
	}
	return false
}

// numberOf returns the number in a line, or 0 if the line has none.
func numberOf(text string) (n int) {
	_, _ = fmt.Sscanf(text, "line %d ", &n)
	return n
}

var collector = sync.OnceValues(func() (string, error) {
	path := filepath.Join(os.TempDir(), "otelcol")
	build := exec.Command("go", "build", "-C", "../../../tools/otelcol", "-o", path, ".")
	out, err := build.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

// The collector stores its queue and its position in the log on disk. The server is killed or
// stopped in turn, and the collector is restarted as well.
func TestCollectorFeedsEveryLineOnce(t *testing.T) {
	if os.Getenv("LMSERVE_TEST_SHIPPERS") == "" {
		t.Skip("LMSERVE_TEST_SHIPPERS is not set: the collector takes minutes to build, and the " +
			"network")
	}
	path, err := collector()
	require.NoError(t, err)
	f := newFeed(t, 6)
	require.NoError(t, os.Mkdir(filepath.Join(f.folder, "state"), 0o755))
	config := filepath.Join(f.folder, "otelcol.yaml")
	text := strings.NewReplacer("/var/log/shop", f.folder, "/var/lib/otelcol",
		filepath.Join(f.folder, "state"),
		"localhost:8080", "127.0.0.1:"+f.port, "max_interval: 30s", "max_interval: 500ms",
		"initial_interval: 1s", "initial_interval: 100ms").Replace(recipe(t, "otelcol.yaml"))
	require.NoError(t, os.WriteFile(config, []byte(text), 0o600))
	f.ship(path, "--config", config)
	restarts := 0 // restarts of the collector; after each, one batch may arrive late
	for round := 0; f.more(round); round++ {
		f.feed(300)
		f.restart(round%2 == 0)
		if round%3 == 2 {
			f.endShipper(syscall.SIGTERM)
			f.ship(path, "--config", config)
			restarts++
		}
		f.write(100)
	}
	f.once("shop", restarts)
}

// syslog-ng sends each message in its own request, with an id by which the server recognizes
// repeats.
func TestSyslogNGFeedsEveryLineOnce(t *testing.T) {
	path, err := exec.LookPath("syslog-ng")
	if err != nil {
		t.Skip("there is no syslog-ng")
	}
	f := newFeed(t, 4)
	request, err := http.NewRequest(http.MethodPut, f.server.URL+"/v1/sessions/shop",
		strings.NewReader(`{"settings":{"method":"counts","companion":false}}`))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusCreated, resp.StatusCode)
	config := filepath.Join(f.folder, "syslog-ng.conf")
	text := strings.NewReplacer("/var/log/shop", f.folder, "localhost:8080", "127.0.0.1:"+f.port).
		Replace(recipe(t, "syslog-ng.conf"))
	require.NoError(t, os.WriteFile(config, []byte(text), 0o600))
	args := []string{"-F", "-e", "--no-caps", "-f", config}
	for flag, name := range map[string]string{"-p": "pid", "-c": "ctl", "-R": "persist"} {
		args = append(args, flag, filepath.Join(f.folder, "ng."+name))
	}
	f.ship(path, args...)
	for round := 0; f.more(round); round++ {
		f.feed(120)
		f.restart(round%2 == 0)
		if round%4 == 1 {
			f.endShipper(syscall.SIGTERM)
			f.ship(path, args...)
		}
		f.write(30)
	}
	f.once("shop", 0)
}

func recipe(t *testing.T, name string) string {
	_, after, found := strings.Cut(shipPage(t), "`"+name+"`:\n\n```")
	require.True(t, found, "docs/ship.md shows %s", name)
	_, after, _ = strings.Cut(after, "\n")
	text, _, _ := strings.Cut(after, "```")
	return text
}
