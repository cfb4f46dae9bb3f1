package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/lab/bench"
)

func TestBenchPrintsATableOrJSON(t *testing.T) {
	args := []string{"bench", "--config", "tiny", "--chunk", "16", "--seconds", "0.0001",
		"--threads", "1", "--only", "limits,chunks"}
	table := must(t, "", args...)
	for _, want := range []string{"tiny: ", "multiply-adds", "memory, read", "GFLOP/s",
		"static chunk", "adaptive chunk", "  backward", "of limit"} {
		require.Contains(t, table, want)
	}
	require.NotContains(t, table, "decode")

	var r bench.Report
	require.NoError(t, json.Unmarshal([]byte(must(t, "", append(args, "--json")...)), &r))
	require.Equal(t, "tiny", r.Model)
	require.Len(t, r.Rows, 4+6+3, "limits, chunks, phases")
}

func TestBenchRefusesBadFlags(t *testing.T) {
	for want, args := range map[string][]string{
		"chunk is 5000, expected 1 to 1024":                {"--chunk", "5000"},
		"seconds is -1, expected a number from 0":          {"--seconds", "-1"},
		`section "gpu" is not known, expected one or more`: {"--only", "limits,gpu"},
		"--threads is 0, expected 1 to":                    {"--threads", "0"},
		"--model and --config are both given, expect":      {"--model", "m", "--config", "tiny"},
		`"nope" is not known, expected one of`:             {"--config", "nope"},
	} {
		_, stderr, code := lmserve("", append([]string{"bench"}, args...)...)
		require.Equal(t, exitUsage, code, stderr)
		require.Contains(t, stderr, want)
	}
}

func TestBenchReadsAConfigurationFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "long.json")
	write := func(text string) []string {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return []string{"bench", "--config", path, "--seconds", "0.0001", "--threads", "1",
			"--chunk", "8", "--only", "limits,chunks"}
	}
	table := must(t, "",
		write(
			`{"n_layer":1,"d_model":8,"n_head":1,"d_head":4,"d_inner":8,"vocab":256,"seg_len":8,`+
				`"mem_len":300}`)...)
	require.Contains(t, table, "long: ")
	require.Contains(t, table, "8 after 300")
	_, stderr, code := lmserve("", write(`{"layers":1}`)...)
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, `long.json: json: unknown field "layers"`)
}

func TestShortTimesAndSpeeds(t *testing.T) {
	for want, seconds := range map[string]float64{"123ns": 123e-9, "1.23µs": 1234e-9,
		"45.7ms": 45.678e-3, "3.43s": 3.4321} {
		require.Equal(t, want, short(seconds))
	}
	require.Equal(t, []string{"0.123", "12.3", "123", "12345"}, []string{digits(0.1234),
		digits(12.34), digits(123.4), digits(12345.4)})
}
