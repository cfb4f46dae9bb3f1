package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A line with a word from the list of trouble words is stranger than a line without such words.
func TestScoreCountsWordsOfTrouble(t *testing.T) {
	words := filepath.Join(t.TempDir(), "words")
	require.NoError(t, os.WriteFile(words, []byte("# ours\ndenied\n"), 0o600))
	var text strings.Builder
	for i := range 300 {
		fmt.Fprintf(&text, "worker %d is done\n", i*i%7)
	}
	text.WriteString("worker 3 was denied\n")
	p := func(more ...string) float64 {
		args := append([]string{"score", "--model", "counts", "--lines", "--top", "1", "--json"},
			more...)
		var line struct {
			Number int
			P      float64
		}
		out := strings.NewReader(must(t, text.String(), args...))
		require.NoError(t, json.NewDecoder(out).Decode(&line))
		require.Equal(t, 301, line.Number)
		return line.P
	}
	without := p()
	require.Less(t, p("--trouble-words", words), without/2)
	require.Less(t, p("--trouble-words", "default"), without/2)
}

func TestScoreReportsDivergence(t *testing.T) {
	text := strings.Repeat("The ship sailed to the harbour of the old town.\n", 20)
	for _, more := range [][]string{{"--total-only"}, {"--lines"}, {"--json"}} {
		args := append([]string{
			"score", "--model", "swift", "--method", "dynamic-sgd", "--rate", "1000",
			"--companion=false", "--quiet",
		}, more...)
		stdout, stderr, code := lmserve(text, args...)
		require.Equal(t, exitFailure, code, more)
		require.Regexp(t, `the fast weights diverged \d+ times and .* try a lower learning rate`,
			stderr)
		require.NotContains(t, stdout, "not the whole text")
		require.NotEmpty(t, stdout)
	}
	must(t, text, "score", "--model", "swift", "--quiet")
}
