package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/serving/follow"
)

func (w *watchRun) requireSaid(text string) {
	w.t.Helper()
	require.Eventually(w.t, func() bool { return strings.Contains(w.err.String(), text) },
		time.Minute, 5*time.Millisecond, "%s not in: %s", text, &w.err)
}

// watch follows all files that match a pattern, including files that appear later. It treats files
// whose names differ only by a date as one log.
func TestWatchFollowsAPattern(t *testing.T) {
	dir := t.TempDir()
	pattern, data := filepath.Join(dir, "*.log"), filepath.Join(dir, "data")
	flags := append(everyLine(t), "--history", "512", "--data-dir", data, "--session", "p", pattern)
	w := startWatch(t, nil, flags...)
	w.requireSaid("no file matches")
	logOf(t, filepath.Join(dir, "app-2026-01-01.log"), 0, 34)
	w.lines(2)
	logOf(t, filepath.Join(dir, "app-2026-01-02.log"), 34, 3)
	requireTexts(t, w.lines(5), 32)
	// 60 lines exceed --history, but a file that appears later is read from its beginning
	logOf(t, filepath.Join(dir, "other.log"), 0, 60)
	lines := w.lines(5 + 28)
	require.Equal(t, "line 32 of the log", *lines[5].Text)
	w.stop()
	require.Equal(t, 2, strings.Count(must(t, "", "sessions", "list", "--data-dir", data), "p."))

	logOf(t, filepath.Join(dir, "app-2026-01-02.log"), 37, 1)
	logOf(t, filepath.Join(dir, "app-2026-01-03.log"), 38, 1)
	w = startWatch(t, nil, flags...)
	requireTexts(t, w.lines(2), 37)
	w.stop()
}

func TestWatchWaitsForAFile(t *testing.T) {
	log := filepath.Join(t.TempDir(), "app.log")
	w := startWatch(t, nil, append(everyLine(t), log)...)
	w.requireSaid("does not exist yet")
	logOf(t, log, 0, 34)
	requireTexts(t, w.lines(2), 32)
	w.stop()
}

// If a log's path temporarily holds a folder, for example, watch reports the error once and
// continues with the other logs. No line is lost.
func TestWatchOutlivesAPassingTrouble(t *testing.T) {
	for name, make := range troubles() {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			one, two := filepath.Join(dir, "one.log"), filepath.Join(dir, "two.log")
			logOf(t, one, 0, 34)
			logOf(t, two, 0, 34)
			w := startWatch(t, nil, append(everyLine(t), one, two)...)
			w.lines(4)
			logOf(t, one, 34, 1)
			require.NoError(t, os.Rename(one, one+".1"))
			make(t, one)
			w.requireSaid("; trying again")
			logOf(t, one+".1", 35, 1)
			logOf(t, two, 34, 1)
			w.lines(7)
			require.NoError(t, os.RemoveAll(one))
			logOf(t, one, 36, 2)
			var texts []string
			for _, l := range w.lines(9) {
				if l.Source == one {
					texts = append(texts, *l.Text)
				}
			}
			for i, text := range texts {
				require.Equal(t, fmt.Sprintf("line %d of the log", 32+i), text)
			}
			w.stop()
			require.Equal(t, 1, strings.Count(w.err.String(), "; trying again"), "%s", &w.err)
		})
	}
}

func TestFilesOfOneNameHaveSessionsOfTheirOwn(t *testing.T) {
	dir, data := t.TempDir(), t.TempDir()
	var logs []string
	for _, site := range []string{"a", "b"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, site), 0o700))
		logs = append(logs, filepath.Join(dir, site, "access.log"))
		logOf(t, logs[len(logs)-1], 0, 33)
	}
	long := filepath.Join(dir, strings.Repeat("日", 70)+".log")
	logOf(t, long, 0, 33)
	flags := append(everyLine(t), "--data-dir", data, "--session", "web")
	w := startWatch(t, nil, append(flags, append(logs, long)...)...)
	w.lines(3)
	w.stop()
	list := must(t, "", "sessions", "list", "--data-dir", data)
	require.Equal(t, 2, strings.Count(list, "web.access.log-"), list)
	require.Regexp(t, `web\.-{32}-[0-9a-f]{8}`, list)
}

func TestSessionNamesAreShortEnough(t *testing.T) {
	for _, session := range []string{"w", strings.Repeat("w", 40), strings.Repeat("w", 54)} {
		for _, hashed := range []bool{false, true} {
			for _, file := range []string{"a", strings.Repeat("b", 200), "日.log"} {
				name := sessionName(session, file, follow.Log{Path: "/" + file}, hashed)
				require.LessOrEqual(t, len(name), sessionMax, name)
			}
		}
	}
}

func TestWatchReadsAFieldOfJSON(t *testing.T) {
	var text strings.Builder
	for i := range 34 {
		fmt.Fprintf(&text, `{"ts":%d,"message":"line %d of the log"}`+"\n", i, i)
	}
	stdout, stderr, code := lmserve(text.String(), append([]string{"watch", "--field", "message"},
		everyLine(t)...)...)
	require.Zero(t, code, stderr)
	w := watchRun{t: t}
	_, _ = w.out.Write([]byte(stdout))
	requireTexts(t, w.lines(2), 32)
}

// journalctl is a shell script that replaces systemd's journalctl. The script prints the lines of
// the file $JOURNAL as journal entries, beginning at the line number in --cursor.
const journalctl = `#!/bin/sh
from=0
for a in "$@"; do
  case $a in --cursor=*) from=${a#--cursor=} ;; --follow) follow=1 ;; esac
done
echo "$@" >> "$JOURNAL.calls"
awk -v from="$from" '{ if (NR >= from) printf "{\"__CURSOR\":\"%d\",\"MESSAGE\":\"%s\"," \
  "\"_SYSTEMD_UNIT\":\"a.service\",\"SYSLOG_IDENTIFIER\":\"a\"}\n", NR, $0 }' "$JOURNAL"
[ -z "$follow" ] || exec sleep 1000
`

// After a restart, watch continues in the journal after the last entry that watch fed to the
// session.
func TestWatchContinuesInTheJournal(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no shell")
	}
	dir := t.TempDir()
	entries := filepath.Join(dir, "entries")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "journalctl"), []byte(journalctl), 0o700))
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("JOURNAL", entries)
	logOf(t, entries, 0, 40)
	flags := append(everyLine(t), "--data-dir", filepath.Join(dir, "data"), "--session", "j",
		"--journal", "--", "-u", "a")
	w := startWatch(t, nil, flags...)
	require.Equal(t, "a.service a: line 32 of the log", *w.lines(8)[0].Text)
	w.stop()
	for _, more := range []int{3, 1} {
		from := strings.Count(read(t, entries), "\n")
		logOf(t, entries, from, more)
		w = startWatch(t, nil, flags...)
		require.Equal(t, fmt.Sprintf("a.service a: line %d of the log", from),
			*w.lines(more)[0].Text)
		w.stop()
	}
	calls := read(t, entries+".calls")
	require.Contains(t, calls, "--lines=300 -u a\n")
	require.Contains(t, calls, "--cursor=")
}

func read(t *testing.T, file string) string {
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(text)
}
