package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api"
)

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

type watchRun struct {
	t        *testing.T
	out, err syncBuffer
	cancel   context.CancelFunc
	code     chan int
}

func startWatch(t *testing.T, stdin io.Reader, args ...string) *watchRun {
	ctx, cancel := context.WithCancel(t.Context())
	w := &watchRun{t: t, cancel: cancel, code: make(chan int, 1)}
	go func() { w.code <- run(ctx, append([]string{"watch"}, args...), stdin, &w.out, &w.err) }()
	return w
}

func (w *watchRun) lines(n int) (all []lineObject) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		return strings.Count(w.out.String(), "\n") >= n
	}, time.Minute, 5*time.Millisecond, "%s", &w.err)
	for line := range strings.Lines(w.out.String()) {
		var l lineObject
		require.NoError(w.t, json.Unmarshal([]byte(line), &l))
		all = append(all, l)
	}
	require.Len(w.t, all, n)
	return all
}

func (w *watchRun) stop() {
	w.cancel()
	require.Zero(w.t, <-w.code, "%s", &w.err)
}

// logOf appends n numbered lines to a file. The first new line has the number `from`.
func logOf(t *testing.T, file string, from, n int) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	for i := range n {
		_, err = fmt.Fprintf(f, "line %d of the log\n", from+i)
		require.NoError(t, err)
	}
	require.NoError(t, f.Close())
}

func requireTexts(t *testing.T, lines []lineObject, from int) {
	t.Helper()
	for i, l := range lines {
		require.Equal(t, fmt.Sprintf("line %d of the log", from+i), *l.Text)
	}
}

// everyLine returns flags that make watch print every line after the first 32 lines of a session.
// The first 32 lines are never printed, because too little is known to rate them.
func everyLine(t *testing.T) []string {
	return []string{"--model", smallModel(t), "--threshold", "1", "--lines", "--json"}
}

func TestWatchMarksTheLinesOfAPipeThatStandOut(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	log, err := os.ReadFile(accessLog)
	require.NoError(t, err)
	lines := strings.SplitAfter(string(log), "\n")
	strange := "2026-11-21T03:25:37.500Z\tWARN\tsshd\tAccepted password for root from 203.0.113.9"
	lines = slices.Insert(lines, 59, strange+"\n")
	stdout, stderr, code := lmserve(strings.Join(lines, ""), "watch", "--threshold", "1/500", "-")
	require.Zero(t, code, stderr)
	rows := strings.Split(strings.TrimSuffix(stdout, "\n"), "\n")
	require.GreaterOrEqual(t, len(rows), 2, stdout)
	require.Regexp(t, `^1/\d+ +2026-11-21T03:25:37.500Z +WARN +sshd +Accepted password for root`,
		rows[0])
	require.Regexp(t, `^ +\^{4}  #\d+ WARN is new`, rows[1])
	require.NotContains(t, stdout, "\x1b")
	require.Contains(t, stderr, "61 lines, 1 printed, ")

	_, stderr, code = lmserve(strings.Join(lines, ""), "watch", "--lines", "-")
	require.Zero(t, code, stderr)
	require.NotContains(t, stderr, "bits", "without a model the bits say nothing")
}

// Every line is printed once, even if the file is renamed or truncated while watch follows it.
func TestWatchFollowsAFile(t *testing.T) {
	log := filepath.Join(t.TempDir(), "app.log")
	logOf(t, log, 0, 40)
	w := startWatch(t, nil, append(everyLine(t), "--history", "1M", log)...)
	requireTexts(t, w.lines(8), 32)
	logOf(t, log, 40, 1)
	w.lines(9)
	require.NoError(t, os.Rename(log, log+".1"))
	logOf(t, log+".1", 41, 2)
	logOf(t, log, 43, 3)
	w.lines(14)
	require.NoError(t, os.Truncate(log, 0))
	logOf(t, log, 46, 9)
	requireTexts(t, w.lines(23), 32)
	w.stop()
	require.Contains(t, w.err.String(), "55 lines, 23 printed")
}

func TestWatchReadsTheEndOfAFileFirst(t *testing.T) {
	log := filepath.Join(t.TempDir(), "app.log")
	logOf(t, log, 0, 100)
	w := startWatch(t, nil, append(everyLine(t), "--history", "1K", log)...)
	// 1K holds 53 lines of 19 bytes, and the first 32 lines are not printed
	lines := w.lines(21)
	w.stop()
	require.Equal(t, "line 99 of the log", *lines[20].Text)
}

// After a restart, watch continues at the next line, even after a log rotation during the downtime.
// Lines that watch did not report before a crash are printed after the restart.
func TestWatchContinuesWhereItWas(t *testing.T) {
	for _, far := range []bool{false, true} {
		t.Run(map[bool]string{false: "here", true: "there"}[far], func(t *testing.T) {
			dir := t.TempDir()
			log, data := filepath.Join(dir, "app.log"), filepath.Join(dir, "data")
			flags := append(everyLine(t), "--data-dir", data, "--session", "app", "--from-start",
				log)
			if far {
				url, stop := serving(t, flags[:2]...)
				defer stop()
				flags = append(flags[2:], "--server", url)
			}
			logOf(t, log, 0, 40)
			w := startWatch(t, nil, flags...)
			requireTexts(t, w.lines(8), 32)
			w.stop()

			logOf(t, log, 40, 5)
			require.NoError(t, os.Rename(log, log+".1"))
			logOf(t, log, 45, 5)
			w = startWatch(t, nil, flags...)
			lines := w.lines(10)
			requireTexts(t, lines, 40)
			require.EqualValues(t, 50, lines[9].Number)
			w.stop()

			again := forgetReports(t, data, lines[3].Offset)
			w = startWatch(t, nil, flags...)
			require.Equal(t, lines[3:], w.lines(7), "to the bit")
			w.stop()
			require.NotEqual(t, again, readPositions(t, data))

			feedMore(t, flags, "other text\n")
			stdout, stderr, code := lmserve("", append([]string{"watch"}, flags...)...)
			require.Equal(t, exitFailure, code, stdout)
			require.Contains(t, stderr, "the session has other text; name another session, or "+
				"delete ")
		})
	}
}

// A record is a group of related lines. It is printed when the next record begins, or when no line
// arrives for a while. A printed record is printed again only if it has grown.
func TestWatchTellsRecordsOnce(t *testing.T) {
	dir := t.TempDir()
	log, data := filepath.Join(dir, "app.log"), filepath.Join(dir, "data")
	watched := func(more string, want ...string) {
		f, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		require.NoError(t, err)
		_, err = f.WriteString(more)
		require.NoError(t, errors.Join(err, f.Close()))
		w := startWatch(t, nil, "--records", "--threshold", "1", "--json", "--data-dir", data,
			"--session", "app", "--from-start", log)
		lines := w.lines(len(want))
		for i, l := range lines {
			require.Equal(t, want[i], *l.Text)
			require.EqualValues(t, 1+strings.Count(want[i], "\n"), *l.Lines)
		}
		w.stop()
	}
	text, want := "", []string{}
	for i := range 20 {
		record := fmt.Sprintf("line %d of the log\n  and more", i)
		text += record + "\n"
		want = append(want, record)
	}
	watched(text, want[16:]...) // the first 32 lines are not printed
	watched("  again\nline 20 of the log\n", want[19]+"\n  again", "line 20 of the log")
	watched("line 21 of the log\n", "line 21 of the log")
}

func readPositions(t *testing.T, data string) (text string) {
	files, err := filepath.Glob(filepath.Join(data, "watch", "*.json"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	content, err := os.ReadFile(files[0])
	require.NoError(t, err)
	require.NotContains(t, string(content), "of the log")
	return string(content)
}

// forgetReports changes the stored position, so that the lines after the offset count as not yet
// printed. It returns the new content of the position file.
func forgetReports(t *testing.T, data string, offset int64) string {
	var p map[string]any
	require.NoError(t, json.Unmarshal([]byte(readPositions(t, data)), &p))
	p["reported"] = offset
	content, err := json.Marshal(p)
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(data, "watch", "*.json"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(files[0], content, 0o600))
	return string(content)
}

func feedMore(t *testing.T, flags []string, text string) {
	args := []string{"score", "--session", "app"}
	for i := 0; i+1 < len(flags); i++ {
		if slices.Contains([]string{"--model", "--data-dir", "--server"}, flags[i]) {
			args = append(args, flags[i], flags[i+1])
		}
	}
	must(t, text, args...)
}

// With --learn false, watch does not change the session, so two runs over the same file print the
// same lines.
func TestWatchWithoutLearning(t *testing.T) {
	log := filepath.Join(t.TempDir(), "app.log")
	flags := append(everyLine(t), "--data-dir", t.TempDir(), "--session", "app", "--from-start",
		log)
	logOf(t, log, 0, 40)
	w := startWatch(t, nil, flags...)
	requireTexts(t, w.lines(8), 32)
	w.stop()
	logOf(t, log, 40, 5)
	var before []lineObject
	for range 2 {
		w = startWatch(t, nil, append([]string{"--learn", "false"}, flags...)...)
		lines := w.lines(45)
		requireTexts(t, lines, 0)
		require.EqualValues(t, 41, lines[0].Number)
		w.stop()
		if before != nil {
			require.Equal(t, before, lines)
		}
		before = lines
	}
	w = startWatch(t, nil, flags...)
	requireTexts(t, w.lines(5), 40)
	w.stop()
}

func TestWatchGivesEachOfSeveralFilesASession(t *testing.T) {
	dir := t.TempDir()
	one, two := filepath.Join(dir, "One.log"), filepath.Join(dir, "two.log")
	logOf(t, one, 0, 34)
	logOf(t, two, 0, 33)
	data := filepath.Join(dir, "data")
	w := startWatch(t, nil, append(everyLine(t), "--data-dir", data, "--session", "web", one,
		two)...)
	sources := map[string]int{}
	for _, l := range w.lines(3) {
		sources[l.Source]++
	}
	require.Equal(t, map[string]int{one: 2, two: 1}, sources)
	w.stop()
	list := must(t, "", "sessions", "list", "--data-dir", data)
	require.Contains(t, list, "web.one.log")
	require.Contains(t, list, "web.two.log")
}

func TestWatchRefusesWhatItCannotDo(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "app.log")
	logOf(t, log, 0, 1)
	words := filepath.Join(dir, "words")
	require.NoError(t, os.WriteFile(words, []byte("error\nnot-one\n"), 0o600))
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--threshold", "1/10", "--top", "3"}, exitUsage,
			"--threshold and --top are both given"},
		{[]string{"--threshold", "2"}, exitUsage, `--threshold is "2", expected a probability`},
		// --rate is the old name of --threshold
		{[]string{"--rate", "2"}, exitUsage, `--threshold is "2"`},
		{[]string{"--threshold", "0"}, exitUsage, `--threshold is "0"`},
		{[]string{"--top", "0"}, exitUsage, "--top is 0, expected 1"},
		{[]string{"--learn", "no"}, exitUsage,
			`--learn is "no", expected true, false or unflagged`},
		{[]string{"--record-start", "a"}, exitUsage,
			`--record-start is "a" without --records, expected both`},
		{[]string{"--records", "--record-start", "(a"}, exitUsage,
			"--record-start is \"(a\", expected a valid regular expression (RE2): missing " +
				"closing ): `(a`"},
		{[]string{"--trouble-words", "no such"}, exitUsage, "--trouble-words: open no such"},
		{[]string{"--trouble-words", words}, exitUsage,
			words + `: line 2: found "not-one", expected letters and _ alone, at most 64 bytes`},
		{[]string{"--records", "--feedback"}, exitUsage, "expected none of these"},
		{[]string{"--learn", "false"}, exitUsage, "without --session"},
		{[]string{"--learn", "unflagged", log}, exitUsage, "unflagged without --model, expected " +
			"true"},
		{[]string{"--learn", "unflagged", "--session", "a", "--data-dir",
			filepath.Join(dir, "data"), log},
			exitUsage, "unflagged without --model, expected true"},
		{[]string{"--session", "A!", "--data-dir", dir, log}, exitUsage,
			`--session is "A!", expected a name`},
		{[]string{dir}, exitUsage, "is a folder"},
		{[]string{log, log}, exitUsage, "given twice"},
		{[]string{filepath.Join(dir, "[")}, exitUsage, "is not a valid pattern"},
		{[]string{"--server", "ftp://x", log}, exitUsage, "--server"},
		{[]string{"--server", "http://x", "--threads", "1", log}, exitUsage,
			"--threads has no effect with --server"},
	} {
		_, stderr, code := lmserve("", append([]string{"watch"}, c.args...)...)
		require.Equal(t, c.code, code, "%v: %s", c.args, stderr)
		require.Contains(t, stderr, c.want, c.args)
	}
}

func TestFolderInUseNamesItsServer(t *testing.T) {
	dir := t.TempDir()
	log, data := filepath.Join(dir, "app.log"), filepath.Join(dir, "data")
	logOf(t, log, 0, 40)
	flags := append(everyLine(t), "--data-dir", data, "--session", "app", "--from-start", log)
	w := startWatch(t, nil, flags...)
	w.lines(8)
	_, stderr, code := lmserve("", append([]string{"watch"}, flags...)...)
	require.Equal(t, exitFailure, code)
	require.Contains(t, stderr, "--server")
	w.stop()
}

func TestTopComesAtTheEnd(t *testing.T) {
	var text strings.Builder
	for i := range 60 {
		fmt.Fprintf(&text, "line %d of the log\n", i)
	}
	text.WriteString("a line without its newline")
	flags := everyLine(t)[:2]
	stdout, stderr, code := lmserve(text.String(), append([]string{"watch", "--top", "3", "--json"},
		flags...)...)
	require.Zero(t, code, stderr)
	w := watchRun{t: t}
	_, _ = w.out.Write([]byte(stdout))
	last := 0.
	for _, l := range w.lines(3) {
		require.GreaterOrEqual(t, l.P, last)
		last = l.P
	}
	lines := jsonLines(t, must(t, text.String(), append([]string{"score", "--lines", "--json"},
		flags...)...))
	require.Len(t, lines, 62)
	require.True(t, lines[61].Total)
	require.EqualValues(t, text.Len(), lines[61].Bytes)
	require.EqualValues(t, 61, *lines[61].Lines)
}

// A signal ends watch without an error, even while lines wait to be scored.
func TestSignalEndsWatchInOrder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	logOf(t, file, 1, 100_000)
	ctx, cancel := context.WithCancelCause(t.Context())
	out, errs, code := new(syncBuffer), new(syncBuffer), make(chan int)
	args := append([]string{"watch", file, "--from-start"}, everyLine(t)...)
	go func() { code <- run(ctx, args, nil, out, errs) }()
	require.Eventually(t, func() bool { return out.String() != "" }, time.Minute, time.Millisecond)
	cancel(signalError{syscall.SIGTERM})
	require.Zero(t, <-code, "%s", errs)
	require.NotContains(t, errs.String(), "signal")
	require.NotContains(t, errs.String(), "http://")
}

// Lines that end with CRLF are shown without the carriage return. A carriage return within a line
// is escaped.
func TestCarriageReturnAtTheEndIsNotShown(t *testing.T) {
	text := "one\r\ntwo\rthree\r\n"
	out := must(t, text, "score", "--lines", "--model", smallModel(t))
	require.Contains(t, out, "one\n")
	require.Contains(t, out, `two\x0dthree`+"\n")
	out = must(t, text, "score", "--lines", "--json", "--model", smallModel(t))
	require.Contains(t, out, `"text":"one\r"`, "JSON has the text as it is")
}

func TestScorePrintsPipeAtOnceAndTotalAtEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	in, writer := io.Pipe()
	defer writer.Close()
	var out, errs syncBuffer
	code := make(chan int)
	go func() {
		code <- run(ctx, append([]string{"score", "-", "--json"}, everyLine(t)[:2]...), in, &out,
			&errs)
	}()
	_, err := io.WriteString(writer, "a few bytes")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return strings.Contains(out.String(), `"bytes":11`) },
		time.Minute, time.Millisecond)
	cancel()
	require.Equal(t, 130, <-code)
	lines := jsonLines(t, out.String())
	total := lines[len(lines)-1]
	require.True(t, total.Total && total.Partial)
	require.EqualValues(t, 11, total.Bytes)
}

func TestScoreWithoutLearning(t *testing.T) {
	flags := append(everyLine(t)[:2], "--data-dir", t.TempDir(), "--session", "s", "--json")
	score := func(text string, more ...string) []chunkObject {
		return jsonLines(t, must(t, text, append(append([]string{"score"}, flags...), more...)...))
	}
	first := "the first text of the session"
	score(first)
	dry := score("and the next one", "--learn", "false")
	require.Equal(t, dry, score("and the next one", "--learn", "false"))
	next := score("and the next one")
	require.EqualValues(t, len(first), *next[0].Offset)
	require.Equal(t, dry[0].Bits, next[0].Bits)
}

// BenchmarkWatch measures the time between the write of a line to a pipe and the output of this
// line by watch.
func BenchmarkWatch(b *testing.B) {
	log, err := os.ReadFile(accessLog)
	require.NoError(b, err)
	lines := strings.SplitAfter(string(log), "\n")
	lines = lines[:len(lines)-1]
	in, writer := io.Pipe()
	out, outWriter := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- run(b.Context(), []string{"watch", "--threshold", "1", "--json"}, in, outWriter,
			io.Discard)
		_ = outWriter.Close()
	}()
	_, err = io.WriteString(writer, strings.Join(lines[:33], ""))
	require.NoError(b, err)
	printed := json.NewDecoder(out)
	var l lineObject
	require.NoError(b, printed.Decode(&l))
	var took []time.Duration
	for n := 0; b.Loop(); n++ {
		line := lines[33+n%(len(lines)-33)][:84] + "\n"
		began := time.Now()
		_, err = io.WriteString(writer, line)
		require.NoError(b, err)
		require.NoError(b, printed.Decode(&l))
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	for _, percent := range []int{50, 90, 99} {
		b.ReportMetric(float64(took[(len(took)-1)*percent/100].Microseconds())/1e3,
			fmt.Sprintf("ms-p%d", percent))
	}
	require.NoError(b, writer.Close())
	_, _ = io.Copy(io.Discard, out)
	require.Zero(b, <-code)
}

func TestWatchTellsOneIncident(t *testing.T) {
	var log strings.Builder
	for i := range 760 {
		status := 200
		if i%17 == 3 {
			status = 404
		}
		if i >= 600 && i%2 == 0 && i < 720 {
			status = 502
		}
		fmt.Fprintf(&log, "10.0.0.%d - - \"GET /users/%d HTTP/1.1\" %d %d\n", i%29, i*i%991, status,
			i*7%1000)
	}
	stdout, stderr, code := lmserve(log.String(), "watch", "-")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "#1 HTTP 502: 0 of 600, then ")
	require.NotContains(t, stdout, "#2")
	require.Regexp(t, `#\d+ so far: 60 lines between 601 and 719|#\d+ closed: 60 lines`, stdout)
	require.Contains(t, stderr, "760 lines, ")

	objects, stderr, code := lmserve(log.String(), "watch", "--json", "-")
	require.Zero(t, code, stderr)
	var first incidentObject
	require.NoError(t, json.Unmarshal([]byte(strings.SplitN(objects, "\n", 2)[0]), &first))
	require.EqualValues(t, 601, first.First)
	require.Equal(t, api.ChangeSurge, first.Changes[0].Kind)
}

// After a restart, watch does not print an open incident again. This is true even if watch had not
// yet recorded that the incident was printed.
func TestWatchTellsIncidentOnceOverRestart(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "app.log")
	flags := []string{"--session", "app", "--data-dir", filepath.Join(dir, "data"), "--from-start",
		"--threshold", "1/100", log}
	more := func(text string) {
		f, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		require.NoError(t, err)
		_, err = f.WriteString(text)
		require.NoError(t, errors.Join(err, f.Close()))
	}
	watched := func(lines int) string {
		w := startWatch(t, nil, flags...)
		offset := func() bool {
			info, err := os.Stat(log)
			require.NoError(t, err)
			files, err := filepath.Glob(filepath.Join(dir, "data", "watch", "*.json"))
			require.NoError(t, err)
			if len(files) == 0 {
				return false
			}
			var p struct{ Reported int64 }
			content, err := os.ReadFile(files[0])
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(content, &p))
			return p.Reported == info.Size()
		}
		require.Eventually(t, offset, time.Minute, 5*time.Millisecond, "%s", &w.err)
		w.stop()
		require.Contains(t, w.err.String(), fmt.Sprintf("lmserve: %d line", lines))
		return w.out.String()
	}
	for i := range 300 {
		more(fmt.Sprintf("GET /%d 200\n", i%7))
	}
	more("PANIC of shard a\n")
	require.Equal(t, 1, strings.Count(watched(301), "#1 PANIC"))
	before, err := os.Stat(log)
	require.NoError(t, err)
	more(strings.Repeat("GET /2 200\nPANIC of shard a\n", 3))
	first := watched(6)
	require.NotContains(t, first, "PANIC of")
	require.Contains(t, first, "#1 so far: 4 lines")
	forgetReports(t, filepath.Join(dir, "data"), before.Size())
	more("GET /2 200\nPANIC of shard a\n")
	second := watched(8)
	require.NotContains(t, second, "PANIC of")
	require.Contains(t, second, "#1 so far: 5 lines")
	more("GET /3 200\n")
	require.Empty(t, watched(1), "nothing has joined it")
}

// After the user marks an incident as a false alarm, watch does not print similar incidents.
func TestWatchTakesFeedback(t *testing.T) {
	log := filepath.Join(t.TempDir(), "app.log")
	write := func(n int, odd string) { writeOdd(t, log, n, odd) }
	write(300, "PANIC of shard a")
	answers, tell := io.Pipe()
	w := startWatch(t, answers, "--threshold", "1/100", "--feedback", "--history", "1M", log)
	printed := func(text string) func() bool {
		return func() bool { return strings.Contains(w.out.String()+w.err.String(), text) }
	}
	require.Eventually(t, printed("PANIC of shard a"), time.Minute, 5*time.Millisecond, "%s",
		&w.err)
	_, err := io.WriteString(tell, "f\n")
	require.NoError(t, err)
	require.Eventually(t, printed("false alarm: PANIC of shard a"), time.Minute, 5*time.Millisecond,
		"%s", &w.err)
	write(100, "PANIC of shard b") // joins the incident, which is still open
	write(300, "PANIC of shard c")
	write(300, "goodbye, world: it ends; here")
	require.Eventually(t, printed("goodbye"), time.Minute, 5*time.Millisecond, "%s", &w.err)
	w.stop()
	require.NotContains(t, w.out.String(), "shard b")
	require.NotContains(t, w.out.String(), "shard c")
	require.NotContains(t, w.out.String(), "2 lines")
	require.NoError(t, tell.Close())
}

// writeOdd appends n usual lines and an odd line to a log.
func writeOdd(t *testing.T, log string, n int, odd string) {
	f, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	for i := range n {
		_, err := fmt.Fprintf(f, "GET /%d 200\n", i%7)
		require.NoError(t, err)
	}
	_, err = fmt.Fprintln(f, odd)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// An incident that is still open when watch ends is not printed after a verdict, even if no line
// has joined it since.
func TestWatchEndsWithoutFalseAlarms(t *testing.T) {
	log := filepath.Join(t.TempDir(), "app.log")
	writeOdd(t, log, 300, "PANIC of shard a")
	writeOdd(t, log, 20, "PANIC of shard b")
	writeOdd(t, log, 20, "goodbye, world: it ends; here")
	answers, tell := io.Pipe()
	w := startWatch(t, answers, "--threshold", "1/100", "--feedback", "--history", "1M", log)
	printed := func(text string) func() bool {
		return func() bool { return strings.Contains(w.out.String()+w.err.String(), text) }
	}
	require.Eventually(t, printed("goodbye"), time.Minute, 5*time.Millisecond, "%s", &w.err)
	_, err := io.WriteString(tell, "f 1\n")
	require.NoError(t, err)
	require.Eventually(t, printed("false alarm: PANIC of shard a"), time.Minute, 5*time.Millisecond,
		"%s", &w.err)
	w.stop()
	require.NotContains(t, w.out.String(), "2 lines")
	require.NoError(t, tell.Close())
}

// watch uses an existing session of the model that --model names, whatever the session's seed.
func TestWatchUsesSessionWithAnySeed(t *testing.T) {
	url, stop := serving(t, "--model", smallModel(t))
	defer stop()
	log := filepath.Join(t.TempDir(), "app.log")
	logOf(t, log, 0, 40)
	must(t, "", "score", "--server", url, "--session", "web", "--seed", "3", log)
	_, session := send(t, http.MethodGet, url+"/v1/sessions/web", "", "")
	w := startWatch(t, nil, "--server", url, "--model", session["model"].(string), "--session",
		"web", "--lines", "--threshold", "1", "--json", log)
	w.lines(8) // without the first 32 lines
	w.stop()
}

// Without --model, a session uses no neural network, and resumes after a restart. A session that
// was created with a model keeps the model.
func TestWatchContinuesWithoutModel(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "app.log")
	flags := []string{"--session", "app", "--data-dir", filepath.Join(dir, "data"), "--history",
		"1M"}
	logOf(t, log, 0, 40)
	for _, c := range []struct{ from, printed, lines int }{{40, 8, 40}, {42, 2, 2}} {
		w := startWatch(t, nil, append(flags, "--lines", "--threshold", "1", "--json", log)...)
		w.lines(c.printed)
		w.stop()
		logOf(t, log, c.from, 2)
		require.Contains(t, w.err.String(), fmt.Sprintf("%d lines, ", c.lines))
	}
	_, stderr, code := lmserve("one line\n", "watch", "--model", "swift", "--session", "of-swift",
		"--data-dir", filepath.Join(dir, "data"), "-")
	require.Zero(t, code, stderr)
	_, stderr, code = lmserve("another\n", "watch", "--session", "of-swift",
		"--data-dir", filepath.Join(dir, "data"), "-")
	require.Zero(t, code, stderr)
	require.Contains(t, stderr, "1 line, 0 printed")
}
