package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/lab/eval"
)

func documentsOf(t *testing.T, texts map[string]string) (dir string) {
	dir = t.TempDir()
	for name, text := range texts {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return dir
}

func TestMethodsHaveOneNameEverywhere(t *testing.T) {
	model, dir := smallModel(t), t.TempDir()
	text, _ := beginning(t, 600)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte(text), 0o600))
	url, stop := serving(t, "--model", model)
	defer stop()
	methods := []string{"static", "static+companion", "sparse-meta+companion"}
	var result struct {
		Documents []struct{ Scores []struct{ Bits float64 } }
	}
	require.NoError(t, json.Unmarshal([]byte(must(t, "", "eval", "--model", model, "--data", dir,
		"--json", "--methods", strings.Join(methods, ","))), &result))
	for i, method := range methods {
		for _, where := range [][]string{{"--model", model}, {"--server", url}} {
			args := append([]string{"score", "--json", "--total-only", "--method", method},
				where...)
			total := jsonLines(t, must(t, text, args...))[0]
			require.InDelta(t, result.Documents[0].Scores[i].Bits, total.Bits, 1e-9, method)
		}
	}
}

func TestEvalPrintsDocumentsDomainsTotalAndCurve(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	dir := documentsOf(t, map[string]string{
		"songs/a.txt": strings.Repeat("one two three\n", 150),
		"b.txt":       "something else",
	})
	model := smallModel(t)
	out := must(t, "", "eval", "--model", model, "--data", dir, "--methods", "static,sparse-meta")
	for _, want := range []string{"static", "sparse-meta", "songs/a.txt", "b.txt",
		"songs, 1 document", "., 1 document", "total, 2 documents",
		"microseconds a byte", "times the time of static", "the first 2 KB of 1 document"} {
		require.Contains(t, out, want)
	}
	require.Less(t, strings.Index(out, "songs, 1"), strings.Index(out, "total"))

	var res eval.Result
	require.NoError(t, json.Unmarshal([]byte(must(t, "", "eval", "--model", model, "--data", dir,
		"--json",
		"--methods", "static,sparse-meta")), &res))
	require.EqualValues(t, 150*14+14, res.Total.Bytes)
	for k, s := range res.Total.Scores {
		require.InDelta(t, res.Documents[0].Scores[k].Bits+res.Documents[1].Scores[k].Bits, s.Bits,
			1e-9)
		require.Contains(t, out, fmt.Sprintf("%.3f", s.BitsPerByte), "table and JSON agree")
	}
	require.Contains(t, out, fmt.Sprintf("%+.3f", *res.Total.Scores[1].Gain))
	require.Contains(t, out, fmt.Sprintf("%.3f %+.3f", *res.Curve[0].BitsPerByte[1],
		*res.Curve[0].BitsPerByte[0]-*res.Curve[0].BitsPerByte[1]))

	require.NoError(t, json.Unmarshal([]byte(must(t, "", "eval", "--model", model, "--data", dir,
		"--json",
		"--reset", "never", "--shuffle", "4", "--max-bytes", "300")), &res))
	require.Equal(t, eval.ResetNever, res.Reset)
	require.EqualValues(t, 4, *res.Shuffle)
	require.EqualValues(t, 314, res.Total.Bytes)
}

func wordModel(t *testing.T) (file, data string) {
	config := filepath.Join(t.TempDir(), "words.json")
	require.NoError(t, os.WriteFile(config,
		[]byte(`{"n_layer":1,"d_model":32,"n_head":2,"d_head":16,"d_inner":64,"seg_len":32,
			"mem_len":32,"cutoffs":[3,6],"div_val":2}`), 0o600))
	data, file = foxes(t), filepath.Join(t.TempDir(), "words.safetensors")
	must(t, "", "train", "--data", data, "--config", config, "--out", file, "--tokenizer", "words",
		"--min-count", "1", "--steps", "20", "--batch", "2", "--lr", "0.01", "--meta-steps", "2",
		"--valid", "none")
	return file, data
}

func TestEvalAndTuneOfWords(t *testing.T) {
	file, data := wordModel(t)
	words := documentsOf(t, map[string]string{
		"a/x.txt": strings.Repeat("the quick brown fox\n", 120), "b/y.txt": "the slow fox",
	})
	out := must(t, "", "eval", "--model", file, "--data", words, "--chunk", "25", "--p", "0.5",
		"--methods", "static,sparse-meta,dynamic-sgd,cache")
	for _, want := range []string{
		"each a stream of its own; chunk 25; p 0.5\nperplexity (unknown words are tokens, " +
			"too), and " +
			"how many percent less than static\n",
		"tokens  ", "microseconds a token", "times the time of static", "    604  ", "      4  ",
		"unknown words, 0.17 %", "bytes of known words: bits per byte",
		"the first 512 tokens of 1 document",
	} {
		require.Contains(t, out, want)
	}
	var res eval.Result
	require.NoError(t, json.Unmarshal([]byte(must(t, "", "eval", "--model", file, "--data", words,
		"--chunk", "25", "--p", "0.5", "--json")), &res))
	require.Contains(t, out, fmt.Sprintf("%.2f %+.2f", res.Total.Scores[1].Perplexity,
		*res.Total.Scores[1].GainPercent), "table and JSON agree")

	tuned := filepath.Join(t.TempDir(), "tuned.safetensors")
	out = must(t, "", "tune", "--model", file, "--data", words, "--out", tuned, "--statistics",
		data,
		"--max-bytes", "300")
	for _, method := range []string{"dynamic-sgd", "dynamic-rms", "cache"} {
		require.Regexp(t, method+`: .* \d+\.\d{3} perplexity, the best of \d+ trials`, out)
	}
	must(t, "", "eval", "--model", tuned, "--data", words, "--methods", "static,dynamic-rms")
}

func TestTableOfAllMethodsFitsPage(t *testing.T) {
	number := 12.3456
	res := eval.Result{Model: "model-0123456789ab", Data: "dir", Methods: stream.Methods(),
		Reset: eval.ResetDocument}
	part := eval.Part{Name: strings.Repeat("long/", 20) + "name.txt", Domain: "long", Documents: 1,
		Bytes: 12345678}
	for range res.Methods {
		part.Scores = append(part.Scores, &eval.Score{BitsPerByte: number, Gain: &number,
			MicrosPerByte: 1234.5, Cost: &number})
	}
	res.Documents, res.Domains, res.Total = []eval.Part{part}, []eval.Part{part, part}, part
	res.Documents[0].Scores = append([]*eval.Score{}, part.Scores...)
	res.Documents[0].Scores[2] = nil
	res.Divergence = []eval.Divergence{{Method: "dynamic-sgd", Document: "x", Offset: 7,
		Why: "because"}}
	var out bytes.Buffer
	require.NoError(t, printEval(&out, res))
	for line := range strings.Lines(out.String()) {
		require.LessOrEqual(t, utf8.RuneCountInString(line), 121, line)
	}
	require.Contains(t, out.String(), "diverged  ")
	require.Contains(t, out.String(), "…")
	require.Contains(t, out.String(), "/name.txt\n")
	require.Contains(t, out.String(), "dynamic-sgd diverged in x near byte 7: because")
}

// If all methods diverged, the number of words is unknown, and the table omits the share of unknown
// words.
func TestTableOfWordsWithoutAnyScore(t *testing.T) {
	part := eval.Part{Name: "a.txt", Domain: ".", Documents: 1, Bytes: 10,
		Scores: []*eval.Score{nil}}
	var out bytes.Buffer
	require.NoError(t, printEval(&out, eval.Result{
		Words: true, Methods: []string{stream.DynamicSGD}, Documents: []eval.Part{part},
		Total: part,
	}))
	require.Contains(t, out.String(), "diverged  total, 1 document\n")
	require.NotContains(t, out.String(), "NaN")
	require.NotContains(t, out.String(), "unknown words, ")
}

func TestEvalTypingCountsKeys(t *testing.T) {
	dir := documentsOf(t, map[string]string{"logs/a.txt": strings.Repeat("one two three\n", 60)})
	args := []string{"eval", "--typing", "--model", smallModel(t), "--data", dir, "--read", "0,400",
		"--window", "40", "--methods", "counts,static"}
	out := must(t, "", args...)
	var res eval.TypingResult
	require.NoError(t, json.Unmarshal([]byte(must(t, "", append(args, "--json")...)), &res))
	require.Len(t, res.Scores, 4)
	require.Greater(t, res.Scores[2].Free.Saved, 60., "counts, after 400 bytes")
	after := res.Scores[2]
	for _, columns := range [][3]float64{
		{after.Word.Saved, after.WordPlus.Saved, after.Free.Saved},
		{after.Inline.Saved, after.Inline.Shown, after.Inline.Right},
	} {
		require.Regexp(t, fmt.Sprintf("(?m)^ *%.1f +%.1f +%.1f .* 400 +counts +logs/a.txt\n",
			columns[0],
			columns[1], columns[2]), out)
	}
	require.NotContains(t, out, "mean, ", "of one document")
	free := res.Calibration[1].Buckets[0]
	require.Regexp(t, fmt.Sprintf("(?m)^ .* %.2f +%.2f +%d\n", free.Said, free.Right,
		free.Candidates), out)
	require.NotContains(t, out, "Omitted")

	more := documentsOf(t, map[string]string{
		"logs/a.txt": strings.Repeat("one two three\n", 60),
		"c.txt":      strings.Repeat("one two four\n", 60),
		"logs/b.txt": strings.Repeat("one two five\n", 60), "short.txt": strings.Repeat("one two\n",
			20),
	})
	out = must(t, "", append(args, "--data", more)...)
	require.Regexp(t, `(?m) 400 +counts +logs, 2 documents\n`, out)
	require.Regexp(t, `(?m) 0 +static +mean, 4 documents\n`, out)
	require.Contains(t, out, "\nshort.txt, of 160 bytes, after 400 bytes read\n")
	_, stderr, code := lmserve("", append(args, "--chart", "x.svg")...)
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "--chart and --typing are both given")
	_, stderr, code = lmserve("", append(args, "--threshold", "2")...)
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "threshold is 2, expected at least 0.002 and less")
}

func TestEvalInterrupted(t *testing.T) {
	telling(t, time.Millisecond, time.Millisecond)
	dir := documentsOf(t, map[string]string{"a.txt": strings.Repeat("some text\n", 20000)})
	for _, format := range [][]string{nil, {"--json"}} {
		ctx, interrupt := context.WithCancel(t.Context())
		var out, log bytes.Buffer
		args := append([]string{"eval", "--model", randomModel(t), "--data", dir,
			"--methods", "static", "--chart", filepath.Join(dir, "x.svg")}, format...)
		require.Equal(t, exitSignal+int(syscall.SIGINT),
			run(ctx, args, nil, &out, &interruptAt{&log, " % of ", interrupt}))
		require.NoFileExists(t, filepath.Join(dir, "x.svg"))
		if format == nil {
			require.Contains(t, out.String(), "0 documents (interrupted; not all documents were "+
				"scored)")
			require.Contains(t, out.String(),
				"scored in part, and not included in the totals: a.txt, of 200000 bytes\n")
			require.Regexp(t, `static: \d+\.\d{3} over the first \d+ bytes\n$`, out.String())
			continue
		}
		var res eval.Result
		require.NoError(t, json.Unmarshal(out.Bytes(), &res))
		require.Positive(t, res.Partial.Scores[0].Bytes)
		require.Empty(t, res.Documents)
	}
}

func TestEvalKeepsWhatItScoredBeforeADocumentThatIsGone(t *testing.T) {
	telling(t, time.Millisecond, time.Millisecond)
	first := "a\r\n.txt"
	dir := documentsOf(t, map[string]string{first: strings.Repeat("some text\n", 20000),
		"b": "other"})
	remove := func() { _ = os.Remove(filepath.Join(dir, "b")) }
	var out, log bytes.Buffer
	require.Equal(t, exitFailure, run(t.Context(), []string{"eval", "--model", randomModel(t),
		"--data", dir, "--methods", "static"}, nil, &out, &interruptAt{&log, " % of ", remove}))
	require.Contains(t, log.String(), filepath.Join(dir, "b"))
	require.Contains(t, out.String(), "1 document (interrupted; not all documents were scored)")
	require.Contains(t, out.String(), `a\r\n.txt`, "no name controls the terminal")
}

func TestEvalDrawsAChart(t *testing.T) {
	dir := documentsOf(t, map[string]string{"a": strings.Repeat("one two three\n", 60)})
	svg, picture := filepath.Join(t.TempDir(), "chart.svg"), filepath.Join(t.TempDir(), "chart.png")
	model := smallModel(t)
	must(t, "", "eval", "--model", model, "--data", dir, "--chart", svg)
	text, err := os.ReadFile(svg)
	require.NoError(t, err)
	for d := xml.NewDecoder(bytes.NewReader(text)); ; {
		if _, err := d.Token(); err == io.EOF {
			break
		} else {
			require.NoError(t, err)
		}
	}
	for _, want := range []string{"static", "sparse-meta", "small-", "bits per byte"} {
		require.Contains(t, string(text), want)
	}
	must(t, "", "eval", "--model", model, "--data", dir, "--reset", "never", "--chart", picture)
	f, err := os.Open(picture)
	require.NoError(t, err)
	defer f.Close()
	_, err = png.Decode(f)
	require.NoError(t, err)
}

func TestEvalSaysWhatWasWrong(t *testing.T) {
	dir := documentsOf(t, map[string]string{"a": "text"})
	for _, c := range []struct {
		args []string
		code int
		want []string
	}{
		{nil, exitUsage, []string{"data"}},
		{[]string{"--data", dir, "--reset", "daily"}, exitUsage,
			[]string{"daily", "document or never"}},
		{[]string{"--data", dir, "--methods", "static,static"}, exitUsage,
			[]string{"static is given twice"}},
		{[]string{"--data", dir, "--methods", "static,magic"}, exitUsage,
			[]string{"magic", "dynamic-sgd"}},
		{[]string{"--data", dir, "--methods", "dynamic-rms", "--model", randomModel(t)}, exitUsage,
			[]string{"dynamic-rms", "no gradient statistics"}},
		{[]string{"--data", dir, "--max-bytes", "-1"}, exitUsage, []string{"max-bytes is -1"}},
		{[]string{"--data", dir, "--shuffle", "often"}, exitUsage, []string{"--shuffle", "often"}},
		{[]string{"--data", dir, "--chart", "x.pdf"}, exitUsage, []string{"--chart", "x.pdf",
			".svg or .png"}},
		{[]string{"--data", dir, "--chart", filepath.Join(dir, "no", "x.svg")}, exitUsage,
			[]string{"--chart", "no"}},
		{[]string{"--data", dir, "--chart", filepath.Join(t.TempDir(), "x.svg"), "--methods",
			"static,sparse-meta,dynamic-sgd,dynamic-rms,cache,counts,static+companion"}, exitUsage,
			[]string{"--methods has 7 methods, expected at most 6 with --chart"}},
		{[]string{"--data", filepath.Join(dir, "a")}, exitFailure, []string{filepath.Join(dir, "a"),
			"expected a directory"}},
	} {
		_, stderr, code := lmserve("", append([]string{"eval"}, c.args...)...)
		require.Equal(t, c.code, code, "%v: %s", c.args, stderr)
		for _, want := range c.want {
			require.Contains(t, stderr, want, "%v", c.args)
		}
	}
}
