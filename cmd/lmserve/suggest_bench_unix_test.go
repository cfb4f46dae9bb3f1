//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/weights"
)

// BenchmarkTyping simulates typing after 10 KB of text. Each operation types one byte and requests
// suggestions over one HTTP connection. The server has two threads and a data folder. The time for
// learning a complete line is not measured. The metrics are the median and the 99th percentile of a
// request's latency, and of the processor time of client and server.
func BenchmarkTyping(b *testing.B) {
	for _, name := range weights.EmbeddedNames() {
		m, err := model.Place{Name: name}.Load()
		require.NoError(b, err)
		for _, file := range []string{
			"../../docs/operations.md", "../../internal/serving/session/faults_test.go",
		} {
			for what, ask := range map[string]string{
				"five":   `"unit":"free"`,
				"inline": `"n":1,"min_probability":0.6`,
			} {
				b.Run(fmt.Sprintf("%s/%s/%s", name, file[strings.LastIndex(file, "/")+1:], what),
					func(b *testing.B) { benchmarkTyping(b, m, file, ask) })
			}
		}
	}
}

func benchmarkTyping(b *testing.B, m *model.Model, file, ask string) {
	text, err := os.ReadFile(file)
	require.NoError(b, err)
	l := newLive(b, m, 2)
	score := l.create(b)
	suggest := l.url + strings.TrimSuffix(score, "score") + "suggest"
	from := 10 << 10
	l.score(b, score, string(text[:from]))
	var took, computed []time.Duration
	for at := from; b.Loop() && at < len(text); at++ {
		typed, err := json.Marshal(string(text[from:at]))
		require.NoError(b, err)
		body := fmt.Sprintf(`{%s,"typed":%s}`, ask, typed)
		began, before := time.Now(), processTime(b)
		resp, err := l.client.Post(suggest, "application/json", strings.NewReader(body))
		require.NoError(b, err)
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		took, computed = append(took, time.Since(began)), append(computed, processTime(b)-before)
		require.Equal(b, http.StatusOK, resp.StatusCode)
		if text[at] == '\n' {
			l.score(b, score, string(text[from:at+1]))
			from = at + 1
		}
	}
	for unit, all := range map[string][]time.Duration{"ms": took, "cpu-ms": computed} {
		slices.Sort(all)
		for _, percent := range []int{50, 99} {
			ms := all[(len(all)-1)*percent/100].Seconds() * 1e3
			b.ReportMetric(ms, fmt.Sprintf("%s-p%d", unit, percent))
		}
	}
}

func processTime(b *testing.B) time.Duration {
	var used syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
