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

	"github.com/lmserve/lmserve/internal/eval"
	"github.com/lmserve/lmserve/internal/stream"
)

// documentsOf writes a directory of documents.
func documentsOf(t *testing.T, texts map[string]string) (dir string) {
	dir = t.TempDir()
	for name, text := range texts {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return dir
}

func TestEvalPrintsDocumentsDomainsTotalAndCurve(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	dir := documentsOf(t, map[string]string{
		"songs/a.txt": strings.Repeat("one two three\n", 150),
		"b.txt":       "something else",
	})
	out := must(t, "", "eval", "--data", dir, "--methods", "static,sparse-meta")
	for _, want := range []string{"static", "sparse-meta", "songs/a.txt", "b.txt", "songs, 1 document", "., 1 document", "total, 2 documents",
		"microseconds a byte", "times the time of static", "the first 2 KB of 1 document"} {
		require.Contains(t, out, want)
	}
	require.Less(t, strings.Index(out, "songs, 1"), strings.Index(out, "total"))

	var res eval.Result
	require.NoError(t, json.Unmarshal([]byte(must(t, "", "eval", "--data", dir, "--json")), &res))
	require.EqualValues(t, 150*14+14, res.Total.Bytes)
	for k, s := range res.Total.Scores {
		require.InDelta(t, res.Documents[0].Scores[k].Bits+res.Documents[1].Scores[k].Bits, s.Bits, 1e-9)
		require.Contains(t, out, fmt.Sprintf("%.3f", s.BitsPerByte), "table and JSON agree")
	}
	require.Contains(t, out, fmt.Sprintf("%+.3f", *res.Total.Scores[1].Gain))
	require.Contains(t, out, fmt.Sprintf("%.3f %+.3f", *res.Curve[0].BitsPerByte[1], *res.Curve[0].BitsPerByte[0]-*res.Curve[0].BitsPerByte[1]))

	require.NoError(t, json.Unmarshal([]byte(must(t, "", "eval", "--data", dir, "--json", "--reset", "never", "--shuffle", "4", "--max-bytes", "300")), &res))
	require.Equal(t, eval.ResetNever, res.Reset)
	require.EqualValues(t, 4, *res.Shuffle)
	require.EqualValues(t, 314, res.Total.Bytes)
}

func TestATableOfAllMethodsFitsAPage(t *testing.T) {
	number := 12.3456
	res := eval.Result{Model: "model-0123456789ab", Data: "dir", Methods: stream.Methods(), Reset: eval.ResetDocument}
	part := eval.Part{Name: strings.Repeat("long/", 20) + "name.txt", Domain: "long", Documents: 1, Bytes: 12345678}
	for range res.Methods {
		part.Scores = append(part.Scores, &eval.Score{BitsPerByte: number, Gain: &number, MicrosPerByte: 1234.5, Cost: &number})
	}
	res.Documents, res.Domains, res.Total = []eval.Part{part}, []eval.Part{part, part}, part
	res.Documents[0].Scores = append([]*eval.Score{}, part.Scores...)
	res.Documents[0].Scores[2] = nil
	res.Divergence = []eval.Divergence{{Method: "dynamic-sgd", Document: "x", Offset: 7, Why: "because"}}
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

// Of the first document, an evaluation that is interrupted prints what there is.
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
			require.Contains(t, out.String(), "0 documents (interrupted; there are more)")
			require.Contains(t, out.String(), "in part, and in no total: a.txt, of 200000 bytes\n")
			require.Regexp(t, `static: \d+\.\d{3} over the first \d+ bytes\n$`, out.String())
			continue
		}
		var res eval.Result
		require.NoError(t, json.Unmarshal(out.Bytes(), &res))
		require.Positive(t, res.Partial.Scores[0].Bytes)
		require.Empty(t, res.Documents)
	}
}

func TestEvalDrawsAChart(t *testing.T) {
	dir := documentsOf(t, map[string]string{"a": strings.Repeat("one two three\n", 60)})
	svg, picture := filepath.Join(t.TempDir(), "chart.svg"), filepath.Join(t.TempDir(), "chart.png")
	must(t, "", "eval", "--data", dir, "--chart", svg)
	text, err := os.ReadFile(svg)
	require.NoError(t, err)
	for d := xml.NewDecoder(bytes.NewReader(text)); ; {
		if _, err := d.Token(); err == io.EOF {
			break
		} else {
			require.NoError(t, err)
		}
	}
	for _, want := range []string{"static", "sparse-meta", "lmserve", "bits per byte"} {
		require.Contains(t, string(text), want)
	}
	must(t, "", "eval", "--data", dir, "--reset", "never", "--chart", picture)
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
		{[]string{"--data", dir, "--reset", "daily"}, exitUsage, []string{"daily", "document or never"}},
		{[]string{"--data", dir, "--methods", "static,static"}, exitUsage, []string{"static stands twice"}},
		{[]string{"--data", dir, "--methods", "static,magic"}, exitUsage, []string{"magic", "dynamic-sgd"}},
		{[]string{"--data", dir, "--methods", "dynamic-rms", "--model", randomModel(t)}, exitUsage, []string{"dynamic-rms", "no gradient statistics"}},
		{[]string{"--data", dir, "--max-bytes", "-1"}, exitUsage, []string{"max-bytes is -1"}},
		{[]string{"--data", dir, "--shuffle", "often"}, exitUsage, []string{"--shuffle", "often"}},
		{[]string{"--data", dir, "--chart", "x.pdf"}, exitUsage, []string{"--chart", "x.pdf", ".svg or .png"}},
		{[]string{"--data", dir, "--chart", filepath.Join(dir, "no", "x.svg")}, exitUsage, []string{"--chart", "no"}},
		{[]string{"--data", filepath.Join(dir, "a")}, exitFailure, []string{filepath.Join(dir, "a"), "expected a directory"}},
	} {
		_, stderr, code := lmserve("", append([]string{"eval"}, c.args...)...)
		require.Equal(t, c.code, code, "%v: %s", c.args, stderr)
		for _, want := range c.want {
			require.Contains(t, stderr, want, "%v", c.args)
		}
	}
}
