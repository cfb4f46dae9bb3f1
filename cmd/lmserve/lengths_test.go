package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A model can use a longer or shorter memory than in training. A different memory length changes
// the model's hash, so a session works only with the memory length of its creation.
func TestLengthsOfTheMemoryAreChosen(t *testing.T) {
	dir, model := t.TempDir(), smallModel(t)
	file := filepath.Join(dir, "text")
	require.NoError(t, os.WriteFile(file, []byte(strings.Repeat("around the rugged rock ", 30)),
		0o600))
	static := func(flags ...string) float64 {
		args := []string{"score", file, "--model", model, "--static", "--total", "--json"}
		return jsonLines(t, must(t, "", append(args, flags...)...))[0].Bits
	}
	plain := static()
	require.Equal(t, plain, static("--mem-len", "20"))
	require.NotEqual(t, plain, static("--mem-len", "16"))
	require.NotEqual(t, static("--mem-len", "16"), static("--mem-len", "16", "--same-length"))
	require.NotEqual(t, static("--mem-len", "700"), static("--mem-len", "700", "--clamp-len",
		"100"))

	data := filepath.Join(dir, "data")
	must(t, "", "score", file, "--model", model, "--total", "--data-dir", data, "--session", "rock",
		"--mem-len", "64")
	_, stderr, code := lmserve("", "score", file, "--model", model, "--data-dir", data, "--session",
		"rock")
	require.NotZero(t, code)
	require.Contains(t, stderr, "model")
	must(t, "", "score", file, "--model", model, "--total", "--data-dir", data, "--session", "rock",
		"--mem-len", "64")
}

func TestLengthsOutOfRangeAreRefused(t *testing.T) {
	for want, flags := range map[string][]string{
		"mem_len is -1, expected 0 to 65536":  {"--mem-len", "-1"},
		"clamp_len is -5, expected 0 or more": {"--clamp-len", "-5"},
		"same_length needs mem_len > 0":       {"--mem-len", "0", "--same-length"},
		"--mem-len has no effect with --server": {"--mem-len", "9", "--server",
			"http://127.0.0.1:1"},
		"--same-length has no effect with --server": {"--same-length", "--server",
			"http://127.0.0.1:1"},
	} {
		_, stderr, code := lmserve("some text", append([]string{"score", "-"}, flags...)...)
		require.Equal(t, exitUsage, code, stderr)
		require.Contains(t, stderr, want)
	}
}

func TestBenchTakesLengths(t *testing.T) {
	table := must(t, "", "bench", "--config", "tiny", "--mem-len", "100", "--chunk", "8",
		"--threads", "1",
		"--seconds", "0.0001", "--only", "chunks")
	require.Contains(t, table, "8 after 100")
	require.Contains(t, table, "static chunk, anew")
	require.Contains(t, table, "MB of weights; a session ")
}
