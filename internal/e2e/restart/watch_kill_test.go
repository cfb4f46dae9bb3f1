//go:build unix

package restart

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/model/modeltest"
	"github.com/lmserve/lmserve/internal/e2e/program"
)

type sums struct {
	Bytes int64
	Bits  float64
}

type watched struct {
	t       *testing.T
	rand    *rand.Rand
	program string
	weights string
	folder  string
	log     string
	out     string

	mu    sync.Mutex
	text  strings.Builder
	lines int
	file  *os.File
}

func newWatched(t *testing.T, seed uint64) *watched {
	w := &watched{t: t, rand: rand.New(rand.NewPCG(seed, 1)), folder: t.TempDir()}
	w.program = program.Built(t, program.AsTested(t)...)
	var err error
	w.weights, err = modeltest.SmallFile(w.folder)
	require.NoError(t, err)
	w.log = filepath.Join(w.folder, "app.log")
	w.out = filepath.Join(w.folder, "out.json")
	w.open()
	return w
}

func (w *watched) open() {
	var err error
	w.file, err = os.OpenFile(w.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(w.t, err)
}

func (w *watched) line() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines++
	line := fmt.Sprintf("%05d user%d reads page %d\n", w.lines, w.rand.IntN(4), w.rand.IntN(20))
	if w.rand.IntN(15) == 0 {
		line = fmt.Sprintf("%05d PANIC %x\n", w.lines, w.rand.Uint64())
	}
	w.text.WriteString(line)
	if w.rand.IntN(3) == 0 { // Add escape sequences and \r, which watch removes.
		line = "\x1b[1m" + strings.Replace(line, "\n", "\x1b[0m\r\n", 1)
	}
	half := w.rand.IntN(2 * len(line))
	_, err := w.file.WriteString(line[:min(half, len(line))])
	if err == nil && half < len(line) {
		_, err = w.file.WriteString(line[half:])
	}
	require.NoError(w.t, err)
}

func (w *watched) rotate(n int) {
	require.NoError(w.t, os.Rename(w.log, fmt.Sprintf("%s.%d", w.log, n)))
	w.line()
	require.NoError(w.t, w.file.Close())
	w.open()
}

func (w *watched) watch(flags ...string) (cmd *exec.Cmd, stderr *bytes.Buffer) {
	out, err := os.OpenFile(w.out, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(w.t, err)
	defer out.Close()
	cmd = program.Command(w.program, append([]string{"watch", w.log, "--session", "app",
		"--from-start",
		"--threshold", "0.05", "--lines", "--json"}, flags...)...)
	stderr = &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = out, stderr
	require.NoError(w.t, cmd.Start())
	return cmd, stderr
}

// printedLines returns the JSON lines of an output by line number, and the count of JSON lines with
// repetitions.
func printedLines(t *testing.T, text string) (byNumber map[int64]string, count int) {
	byNumber = map[int64]string{}
	for line := range strings.Lines(text) {
		var l struct{ Number int64 }
		if !strings.HasSuffix(line, "\n") || json.Unmarshal([]byte(line), &l) != nil ||
			l.Number == 0 {
			continue // Skip the totals, and a line that a kill has cut off.
		}
		count++
		if before, again := byNumber[l.Number]; again {
			require.Equal(t, before, line, "a line that is printed again is the same")
		}
		byNumber[l.Number] = line
	}
	return byNumber, count
}

// check compares the session and the output of watch with a run of the command score on the whole
// text.
func (w *watched) check(totals func() sums, learn string, kills int) {
	whole := filepath.Join(w.folder, "whole.txt")
	require.NoError(w.t, os.WriteFile(whole, []byte(w.text.String()), 0o600))
	undisturbed := program.Must(w.t, w.program, "score", "--model", w.weights, "--lines",
		"--threshold", "0.05",
		"--learn", learn, "--json", whole)
	want, _ := printedLines(w.t, undisturbed)
	printed, err := os.ReadFile(w.out)
	require.NoError(w.t, err)
	got, count := printedLines(w.t, string(printed))
	require.Equal(w.t, want, got)
	require.LessOrEqual(w.t, count-len(got), 2*kills, "lines that were printed again")
	have := totals()
	require.EqualValues(w.t, w.text.Len(), have.Bytes)
	var total sums
	for d := json.NewDecoder(strings.NewReader(undisturbed)); d.More(); {
		total = sums{}
		require.NoError(w.t, d.Decode(&total))
	}
	require.InEpsilon(w.t, total.Bits, have.Bits, 1e-9)
	w.t.Logf("%d lines, %d printed, %d of them again, %d kills", w.lines, len(got), count-len(got),
		kills)
}

func (w *watched) writeUntil(stop <-chan struct{}) {
	for n := 1; ; n++ {
		for range 10 + w.rand.IntN(60) {
			select {
			case <-stop:
				return
			case <-time.After(time.Duration(w.rand.IntN(8)) * time.Millisecond):
				w.line()
			}
		}
		w.rotate(n)
	}
}

func watchSeed(t *testing.T) uint64 {
	if text := os.Getenv("WATCH_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
		return seed
	}
	return rand.Uint64()
}

// A watch is killed repeatedly while the log grows and is rotated. Every line gets into the session
// exactly once, and the printed lines are the same as without kills.
func TestKilledWatchLosesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	t.Parallel()
	for _, learn := range []string{"true", "unflagged"} {
		t.Run(learn, func(t *testing.T) {
			t.Parallel()
			seed := watchSeed(t)
			t.Logf("WATCH_SEED=%d", seed)
			w := newWatched(t, seed)
			dir := filepath.Join(w.folder, "data")
			flags := []string{"--model", w.weights, "--data-dir", dir, "--learn", learn}
			w.line()
			// Watch does not read files that were rotated before its first start. Therefore the
			// test waits until watch has reported a line, and rotates the log afterwards.
			cmd, _ := w.watch(flags...)
			require.Eventually(t, func() bool { return w.reported(dir) > 0 }, time.Minute,
				time.Millisecond)
			require.NoError(t, cmd.Process.Kill())
			_ = cmd.Wait()
			stop, written := make(chan struct{}), make(chan struct{})
			go func() { w.writeUntil(stop); close(written) }()
			const kills = 8
			moments := rand.New(rand.NewPCG(seed, 2))
			for range kills {
				cmd, _ := w.watch(flags...)
				time.Sleep(time.Duration(100+moments.IntN(700)) * time.Millisecond)
				require.NoError(t, cmd.Process.Kill())
				_ = cmd.Wait()
			}
			close(stop)
			<-written
			cmd, stderr := w.watch(flags...)
			settled := func() bool { return w.reported(dir) == int64(w.text.Len()) }
			if !assert.Eventually(t, settled, 5*time.Minute, 50*time.Millisecond) {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
				t.Fatalf("%d of %d bytes are reported\n%s", w.reported(dir), w.text.Len(), stderr)
			}
			require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
			require.NoError(t, cmd.Wait(), stderr)
			w.check(func() sums { return w.totals(flags[:4]) }, learn, kills)
		})
	}
}

// reported returns the offset up to which watch has reported lines. It reads this offset from the
// file that stores the position of watch.
func (w *watched) reported(dir string) int64 {
	files, err := filepath.Glob(filepath.Join(dir, "watch", "*.json"))
	require.NoError(w.t, err)
	if len(files) == 0 {
		return 0
	}
	text, err := os.ReadFile(files[0])
	require.NoError(w.t, err)
	var p struct{ Reported int64 }
	require.NoError(w.t, json.Unmarshal(text, &p))
	return p.Reported
}

func (w *watched) totals(flags []string) sums {
	stdout := program.Must(w.t, w.program, append([]string{"sessions", "show", "app"},
		flags[2:]...)...)
	var s struct {
		Offset int64
		Bits   float64
	}
	require.NoError(w.t, json.Unmarshal([]byte(stdout), &s), stdout)
	return sums{Bytes: s.Offset, Bits: s.Bits}
}
