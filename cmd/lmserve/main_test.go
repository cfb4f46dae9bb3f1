package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
)

const accessLog = "../../internal/lab/demo/access.log"

func lmserve(stdin string, args ...string) (stdout, stderr string, code int) {
	var out, errs bytes.Buffer
	code = run(context.Background(), args, strings.NewReader(stdin), &out, &errs)
	return out.String(), errs.String(), code
}

func must(t *testing.T, stdin string, args ...string) string {
	stdout, stderr, code := lmserve(stdin, args...)
	require.Zero(t, code, stderr)
	return stdout
}

func TestVerifyReplaysTheShippedFiles(t *testing.T) {
	files, err := filepath.Glob("../../internal/lab/conformance/testdata/*.safetensors")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	out := must(t, "", append([]string{"verify"}, files...)...)
	require.Equal(t, len(files), strings.Count(out, " 0 out of tolerance"))
	require.NotContains(t, out, "OUT OF TOLERANCE")
}

func TestVerifyExitsWithOneOnAWrongNumber(t *testing.T) {
	text, err := os.ReadFile("../../internal/lab/conformance/testdata/txl_small.safetensors")
	require.NoError(t, err)
	text[len(text)-2] ^= 0x40 // flips an exponent bit in the last tensor
	wrong := filepath.Join(t.TempDir(), "wrong.safetensors")
	require.NoError(t, os.WriteFile(wrong, text, 0o600))
	stdout, stderr, code := lmserve("", "verify", wrong)
	require.Equal(t, exitFailure, code)
	require.Contains(t, stdout, "OUT OF TOLERANCE")
	require.Contains(t, stderr, "1 of")
}

func beginning(t *testing.T, bytes int) (text, file string) {
	all, err := os.ReadFile(accessLog)
	require.NoError(t, err)
	file = filepath.Join(t.TempDir(), "log")
	require.NoError(t, os.WriteFile(file, all[:bytes], 0o600))
	return string(all[:bytes]), file
}

func jsonLines(t *testing.T, text string) (lines []chunkObject) {
	for d := json.NewDecoder(strings.NewReader(text)); d.More(); {
		var l chunkObject
		require.NoError(t, d.Decode(&l))
		lines = append(lines, l)
	}
	return lines
}

func TestScoreReadsFilesAndStandardInputAlike(t *testing.T) {
	text, file := beginning(t, 1000)
	score := []string{"score", "--json", "--model", smallModel(t)}
	fromFile := must(t, "", append(score, file)...)
	require.Equal(t, fromFile, must(t, text, score...))
	require.Equal(t, fromFile, must(t, text, append(score, "--threads", "1")...),
		"threads change no bit")

	lines := jsonLines(t, fromFile)
	total := lines[len(lines)-1]
	require.True(t, total.Total)
	require.EqualValues(t, len(text), total.Bytes)
	var bits float64
	for _, l := range lines[:len(lines)-1] {
		bits += l.Bits
	}
	require.InDelta(t, total.Bits, bits, 1e-6)
}

// The embedded model has never seen this log. Within a few KB, the adaptive bits per character fall
// below those of the static model.
func TestEmbeddedModelAdaptsToLog(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	const few = 3 << 10
	_, file := beginning(t, 2*few)
	lines := jsonLines(t, must(t, "", "score", "--compare", "--json", file))
	var static, adaptive, staticLate, adaptiveLate float64
	for _, l := range lines[:len(lines)-1] {
		if *l.Offset < few {
			static, adaptive = static+*l.BaselineBPC*float64(l.Bytes), adaptive+l.Bits
		} else {
			staticLate, adaptiveLate = staticLate+*l.BaselineBPC*float64(l.Bytes),
				adaptiveLate+l.Bits
		}
	}
	require.Less(t, adaptive, static, "over the first 3 KB")
	require.Less(t, adaptiveLate, 0.6*staticLate, "over the next 3 KB by two fifths at least")
}

func TestNoWritesIsStatic(t *testing.T) {
	text, _ := beginning(t, 600)
	score := []string{"score", "--json", "--model", smallModel(t)}
	static := must(t, text, append(score, "--method", "static+companion")...)
	require.Equal(t, static, must(t, text, append(score, "--p", "0")...))
	require.NotEqual(t, static, must(t, text, score...))
}

// With every method, a model learns a repetitive text and can complete it. The command line and
// HTTP give bit-identical results.
func TestEveryMethodServes(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	text, _ := beginning(t, 1600)
	url, stop := serving(t, "--model", "swift")
	defer stop()
	post := func(path, contentType, body string, into any) {
		res, err := http.Post(url+path, contentType, strings.NewReader(body))
		require.NoError(t, err)
		defer res.Body.Close()
		require.Less(t, res.StatusCode, 300)
		require.NoError(t, json.NewDecoder(res.Body).Decode(into))
	}
	static := -1.
	for _, method := range stream.Methods() {
		model := "swift"
		if method == stream.Counts {
			// the method counts has only one model, which contains no neural network
			model = stream.Counts
		}
		lines := jsonLines(t, must(t, text, "score", "--model", model, "--json", "--total",
			"--method", method, "--seed", "3"))
		bits := lines[0].Bits
		switch method {
		case stream.Static:
			static = bits
		case stream.Counts:
			require.Less(t, bits, 8*float64(len(text)), "counts know nothing at first")
		default:
			require.Less(t, bits, static, method)
		}
		var session struct {
			ID       string
			Settings struct{ Method string }
		}
		post("/v1/sessions", "application/json", `{"seed":3,"settings":{"method":"`+method+`"}}`,
			&session)
		require.Equal(t, method, session.Settings.Method)
		var summary struct{ Bits float64 }
		post("/v1/sessions/"+session.ID+"/score", "text/plain", text, &summary)
		require.Equal(t, math.Float64bits(bits), math.Float64bits(summary.Bits),
			"%s: HTTP and command line agree to the bit", method)
		var completion struct {
			Text   string
			Offset int64
		}
		post("/v1/sessions/"+session.ID+"/complete", "application/json",
			`{"prompt":"2026","max_tokens":12,"temperature":0}`, &completion)
		require.NotEmpty(t, completion.Text)
		require.EqualValues(t, len(text), completion.Offset)
	}
	out := must(t, "", "eval", "--model", "swift", "--data", filepath.Dir(accessLog), "--max-bytes",
		"300",
		"--methods", strings.Join(stream.Methods(), ","))
	for _, method := range stream.Methods() {
		require.Contains(t, out, method)
	}
}

func TestSettingsOfAMethodOnTheCommandLine(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	text, _ := beginning(t, 600)
	model := smallModel(t)
	score := func(flags ...string) string {
		return must(t, text, append([]string{"score", "--model", model, "--json"}, flags...)...)
	}
	static := score("--static", "--companion")
	require.Equal(t, static, score("--method", "static+companion"))
	require.Equal(t, score("--static"), score("--method", "static"))
	require.Equal(t, score("--static"), score("--method", "dynamic-sgd", "--rate", "0",
		"--companion=false"))
	require.Equal(t, static, score("--method", "dynamic-sgd", "--rate", "0"))
	require.Equal(t, static, score("--method", "cache", "--lambda", "0"))
	for _, flags := range [][]string{{"--rate", "0.01"}, {"--decay", "0.5"}} {
		flags = append(flags, "--method", "dynamic-sgd")
		require.NotEqual(t, score("--method", "dynamic-sgd"), score(flags...))
	}
	for _, flags := range [][]string{{"--cache-size", "10"}, {"--theta", "0"},
		{"--lambda", "0.5"}} {
		require.NotEqual(t, score("--method", "cache"),
			score(append(flags, "--method", "cache")...))
	}
}

func TestCompleteIsReproducible(t *testing.T) {
	_, file := beginning(t, 1500)
	args := []string{"complete", "--model", smallModel(t), "--after", file, "--prompt", "2026-",
		"--max-tokens", "40", "--seed", "5"}
	first := must(t, "", args...)
	require.True(t, strings.HasPrefix(first, "2026-"))
	require.Equal(t, first, must(t, "", args...))
}

// serving starts a server. The returned function stop drains the server and waits until it ends.
func serving(t *testing.T, flags ...string) (url string, stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	out, outWriter := io.Pipe()
	code := make(chan int)
	go func() {
		code <- run(ctx, append([]string{"serve", "--listen", "127.0.0.1:0", "--log", "none",
			"--data-dir", "none"}, flags...), nil, outWriter, io.Discard)
	}()
	first, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(first[strings.LastIndex(first, "http"):]), func() {
		cancel()
		require.Zero(t, <-code)
	}
}

func TestServeAnswersAndDrains(t *testing.T) {
	model := smallModel(t)
	url, stop := serving(t, "--model", model)
	res, err := http.Post(url+"/v1/sessions", "application/json", strings.NewReader(`{"seed":3}`))
	require.NoError(t, err)
	var created struct{ ID string }
	require.NoError(t, json.NewDecoder(res.Body).Decode(&created))
	require.NoError(t, res.Body.Close())
	text, _ := beginning(t, 700)
	res, err = http.Post(url+"/v1/sessions/"+created.ID+"/score", "text/plain",
		strings.NewReader(text))
	require.NoError(t, err)
	var summary struct{ Bits float64 }
	require.NoError(t, json.NewDecoder(res.Body).Decode(&summary))
	require.NoError(t, res.Body.Close())

	lines := jsonLines(t, must(t, text, "score", "--model", model, "--json", "--seed", "3"))
	require.Equal(t, math.Float64bits(lines[len(lines)-1].Bits), math.Float64bits(summary.Bits),
		"HTTP and command line agree to the bit")
	stop()
}

func TestSessionsAreThereAfterARestart(t *testing.T) {
	text, _ := beginning(t, 700)
	dir, model, id := t.TempDir(), smallModel(t), ""
	var bits float64
	for _, part := range []string{text[:333], text[333:]} {
		url, stop := serving(t, "--model", model, "--data-dir", dir, "--memory-budget", "64M")
		if id == "" {
			res, err := http.Post(url+"/v1/sessions", "application/json",
				strings.NewReader(`{"seed":3}`))
			require.NoError(t, err)
			var created struct{ ID string }
			require.NoError(t, json.NewDecoder(res.Body).Decode(&created))
			require.NoError(t, res.Body.Close())
			id = created.ID
		}
		res, err := http.Post(url+"/v1/sessions/"+id+"/score", "text/plain",
			strings.NewReader(part))
		require.NoError(t, err)
		var summary struct {
			Totals struct{ Bits float64 }
		}
		require.NoError(t, json.NewDecoder(res.Body).Decode(&summary))
		require.NoError(t, res.Body.Close())
		bits = summary.Totals.Bits
		_, stderr, code := lmserve("", "serve", "--model", model, "--log", "none",
			"--listen", "127.0.0.1:0", "--data-dir", dir)
		require.Equal(t, exitFailure, code)
		require.Contains(t, stderr, "in use by another process")
		stop()
	}
	lines := jsonLines(t, must(t, text, "score", "--model", model, "--json", "--seed", "3",
		"--total"))
	require.Equal(t, math.Float64bits(lines[0].Bits), math.Float64bits(bits),
		"as without the restart")
}

// Every command that runs a model accepts the precision bf16. On a processor without bf16
// instructions, the error message names the required instructions.
func TestPrecision(t *testing.T) {
	text, _ := beginning(t, 600)
	if (kernel.Arithmetic{Precision: kernel.BF16}).Validate() != nil {
		for _, args := range [][]string{{"train", "--data", ".", "--out", "x"}, {"score"},
			{"eval", "--data", "."}, {"complete"}, {"serve"}, {"bench"}} {
			_, stderr, code := lmserve(text, append(args, "--precision", "bf16")...)
			require.Equal(t, exitUsage, code, "%v: %s", args, stderr)
			require.Contains(t, stderr, "--precision: bf16 needs the instructions AVX512-BF16, "+
				"or AMX-TILE and AMX-BF16", "%v", args)
		}
		return
	}
	total := func(args ...string) float64 {
		lines := jsonLines(t, must(t, text, append([]string{"score", "--json", "--total"},
			args...)...))
		return *lines[0].BPC
	}
	float32s, bf16 := total(), total("--precision", "bf16")
	require.NotEqual(t, float32s, bf16)
	require.InEpsilon(t, float32s, bf16, 0.05)
	require.Equal(t, float32s, total(), "the default is float32 again")
}

func TestErrorsSayWhatWasWrong(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "broken.safetensors")
	require.NoError(t, os.WriteFile(broken, []byte("not weights"), 0o600))
	for _, c := range []struct {
		args []string
		code int
		want []string
	}{
		{[]string{"score", "--nonsense"}, exitUsage, []string{"--nonsense",
			"lmserve score --help"}},
		{[]string{"score", "no-such-file"}, exitFailure, []string{"no-such-file"}},
		{[]string{"score", "--model", broken}, exitFailure, []string{broken}},
		{[]string{"score", "--p", "1.5"}, exitUsage, []string{"p", "1.5"}},
		{[]string{"score", "--chunk", "-3"}, exitUsage, []string{"chunk is -3"}},
		{[]string{"score", "--method", "magic"}, exitUsage, []string{"magic", "dynamic-sgd",
			"cache"}},
		{[]string{"score", "--method", "cache", "--static"}, exitUsage,
			[]string{"method", "static"}},
		{[]string{"score", "--method", "dynamic-rms", "--model", randomModel(t)}, exitUsage,
			[]string{"no gradient statistics"}},
		{[]string{"score", "--method", "dynamic-sgd", "--rate", "-1"}, exitUsage,
			[]string{"rate", "-1"}},
		{[]string{"score", "--method", "cache", "--lambda", "1"}, exitUsage,
			[]string{"lambda", "1"}},
		{[]string{"complete", "--temperature", "-1"}, exitUsage, []string{"temperature is -1"}},
		{[]string{"complete", "--max-tokens", "0"}, exitUsage, []string{"--max-tokens is 0"}},
		{[]string{"eval", "--data", "no-such-dir"}, exitFailure, []string{"no-such-dir"}},
		{[]string{"eval", "--data", ".", "--methods", "magic"}, exitUsage, []string{"magic"}},
		{[]string{"train", "--data", "no-such-dir", "--out", "x"}, exitFailure,
			[]string{"no-such-dir"}},
		{[]string{"train", "--data", "."}, exitUsage, []string{"--out"}},
		{[]string{"serve", "--memory-budget", "lots"}, exitUsage, []string{"--memory-budget",
			`"lots"`, "800M or 4G"}},
		{[]string{"serve", "--log", "loud"}, exitUsage, []string{"loud", "console"}},
		{[]string{"serve", "--data-dir", "none", "--log", "none", "--listen", ":0"}, exitUsage,
			[]string{"--listen :0", "no keys", "lmserve keys add", "--insecure"}},
		{[]string{"serve", "--data-dir", "none", "--log", "none", "--listen", "nonsense"},
			exitUsage, []string{"--listen nonsense", "missing port"}},
		{[]string{"serve", "--keys", "no-such-file"}, exitFailure,
			[]string{"--keys", "no-such-file", "lmserve keys add NAME --keys-file no-such-file"}},
		{[]string{"serve", "--data-dir", "none", "--tls-cert", "c.pem"}, exitUsage,
			[]string{"--tls-key", "both or neither"}},
		{[]string{"serve", "--data-dir", "none", "--tls-key", "k.pem"}, exitUsage,
			[]string{"--tls-cert", "both or neither"}},
		{[]string{"serve", "--data-dir", "none", "--tls-cert", "no-such-c", "--tls-key", "k.pem"},
			exitFailure, []string{"no-such-c", "k.pem"}},
		{[]string{"keys", "remove"}, exitUsage, []string{`"remove"`, "keys --help"}},
		{[]string{"keys", "add"}, exitUsage, []string{"0 arguments", "a name"}},
		{[]string{"keys", "add", "a b", "--file", broken}, exitUsage,
			[]string{`"a b"`, "1 to 64 letters"}},
		{[]string{"keys", "add", "a", "--file", broken}, exitFailure,
			[]string{broken + ":1: found invalid character 'o' in literal null"}},
		{[]string{"keys", "list", "--file", broken}, exitFailure,
			[]string{broken + ":1: found invalid character"}},
		{[]string{"keys", "list", "--data-dir", "none"}, exitUsage, []string{"--data-dir is none",
			"--keys-file"}},
		{[]string{"keys", "add", "a", "--file", "x", "--sessions", "0"}, exitUsage,
			[]string{"--sessions is 0", "1 to 1048576"}},
		{[]string{"keys", "add", "a", "--file", "x", "--bytes-per-second", "-1"}, exitUsage,
			[]string{"--bytes-per-second is -1"}},
		{[]string{"keys", "add", "a", "--file", "x", "--expires", "soon"}, exitUsage,
			[]string{`--expires is "soon"`, "90d"}},
		{[]string{"keys", "add", "a", "--file", "x", "--expires", "2001-01-01"}, exitUsage,
			[]string{"2001-01-01T00:00:00Z", "a time in the future"}},
		{[]string{"keys", "revoke", "a", "--file", "no-such-file"}, exitFailure,
			[]string{"no-such-file"}},
		{[]string{"serve", "--threads", "0"}, exitUsage, []string{"--threads is 0"}},
		{[]string{"score", "--precision", "half"}, exitUsage, []string{"--precision", `"half"`,
			"float32 or bf16"}},
	} {
		_, stderr, code := lmserve("", c.args...)
		require.Equal(t, c.code, code, "%v: %s", c.args, stderr)
		for _, want := range c.want {
			require.Contains(t, stderr, want, "%v", c.args)
		}
	}
}
