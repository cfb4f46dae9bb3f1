package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/learning/train"
)

func foxes(t *testing.T) string {
	dir := t.TempDir()
	for _, name := range []string{"prose/a", "prose/b", "code/c"} {
		file := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
		require.NoError(t, os.WriteFile(file, bytes.Repeat([]byte("the quick brown fox "+name+"\n"),
			700), 0o600))
	}
	return dir
}

func smallConfig(t *testing.T) string {
	file := filepath.Join(t.TempDir(), "fox.json")
	text :=
		`{"n_layer":1,"d_model":32,"n_head":2,"d_head":16,"d_inner":64,"vocab":256,"seg_len":32,` +
			`"mem_len":32}`
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

func TestTrainMakesAModelThatScores(t *testing.T) {
	dir := t.TempDir()
	out, page := filepath.Join(dir, "m.safetensors.zst"), filepath.Join(dir, "report.html")
	text := must(t, "", "train", "--data", foxes(t), "--config", smallConfig(t), "--out", out,
		"--report", page,
		"--phase", "pretrain,meta,joint", "--steps", "60", "--batch", "2", "--lr", "0.01",
		"--schedule", "wsd",
		"--meta-steps", "4", "--joint-steps", "2", "--meta-chunks", "2", "--chunk", "32")
	require.Contains(t, text, "model fox-")
	for _, phase := range []string{"pretrain: 60 steps", "meta: 4 steps", "joint: 2 steps"} {
		require.Contains(t, text, phase)
	}
	lines := jsonLines(t, must(t, "the quick brown fox a\n", "score", "--model", out, "--json"))
	require.Less(t, *lines[len(lines)-1].BPC, 7.0, "better than knowing nothing, which costs 8")
	html, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Contains(t, string(html), "<h1>fox</h1>")

	better := filepath.Join(dir, "better.safetensors")
	_, stderr, code := lmserve("", "train", "--data", foxes(t), "--init", out, "--config",
		"default", "--out", better)
	require.Equal(t, exitUsage, code)
	require.Regexp(t,
		`--config is {"n_layer":\d+,.*, expected {"n_layer":\d+,.*`+
			`only lengths and untie_softmax can differ`,
		stderr)

	text = must(t, "", "train", "--data", foxes(t), "--init", out, "--out", better, "--phase",
		"meta", "--meta-steps", "2", "--store", "float32")
	require.Contains(t, text, "model fox-", "the name stays")
}

func TestTrainMakesAModelOfWords(t *testing.T) {
	out, page := filepath.Join(t.TempDir(), "m.safetensors"), filepath.Join(t.TempDir(),
		"report.html")
	// without a vocabulary size, because the text determines the vocabulary
	config := filepath.Join(t.TempDir(), "fox.json")
	require.NoError(t, os.WriteFile(config,
		[]byte(
			`{"n_layer":1,"d_model":32,"n_head":2,"d_head":16,"d_inner":64,"seg_len":32,`+
				`"mem_len":32}`), 0o600))
	text := must(t, "", "train", "--data", foxes(t), "--config", config, "--out", out,
		"--report", page, "--tokenizer", "words", "--vocab-size", "6",
		"--phase", "pretrain", "--steps", "20", "--batch", "2", "--lr", "0.01")
	require.Contains(t, text, "pretrain: 20 steps, 1280 tokens, training perplexity ")
	require.Contains(t, text, ", valid perplexity static ")
	html, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Contains(t, string(html), "A token is a word or the end of a line")

	require.Contains(t, must(t, "a fox\n", "score", "--model", out, "--total", "-"), "6 bytes")
}

func TestTrainIsInterruptedAndContinues(t *testing.T) {
	dir := t.TempDir()
	args := []string{"train", "--data", foxes(t), "--config", smallConfig(t), "--out",
		filepath.Join(dir, "m"), "--checkpoints", filepath.Join(dir, "run"),
		"--resume", "--phase", "pretrain", "--steps", "30", "--batch", "2"}
	ctx, interrupt := context.WithCancel(t.Context())
	var out, log bytes.Buffer
	code := run(ctx, args, nil, &out, &interruptAt{&log, "pretrain step 9  valid", interrupt})
	require.Equal(t, exitSignal+int(syscall.SIGINT), code, log.String())
	require.Contains(t, log.String(), "has no checkpoint yet")
	require.Contains(t, log.String(), "interrupted in phase pretrain after step 9; resume from")
	require.Contains(t, log.String(), "run the same command with --resume")
	require.NoFileExists(t, filepath.Join(dir, "m"))

	stdout, stderr, code := lmserve("", args...)
	require.Zero(t, code, stderr)
	require.Contains(t, stderr, "pretrain continues after step 9")
	require.Contains(t, stdout, "pretrain: 30 steps")
	require.FileExists(t, filepath.Join(dir, "m"))
	require.FileExists(t, filepath.Join(dir, "run", "metrics.jsonl"))

	_, stderr, code = lmserve("", append(args, "--lr", "0.5")...)
	require.Equal(t, exitFailure, code)
	require.Contains(t, stderr, "is from a different run: pretrain.rate is 0.003 in the "+
		"checkpoint and 0.5 in this run")
}

type interruptAt struct {
	*bytes.Buffer
	what      string
	interrupt func()
}

func (w *interruptAt) Write(p []byte) (int, error) {
	if strings.Contains(string(p), w.what) {
		w.interrupt()
	}
	return w.Buffer.Write(p)
}

func TestTrainNamesTheFlagThatIsWrong(t *testing.T) {
	data := foxes(t)
	broken := filepath.Join(t.TempDir(), "broken.json")
	require.NoError(t, os.WriteFile(broken, []byte(`{"n_layer": 1, "width": 3}`), 0o600))
	odd := filepath.Join(t.TempDir(), "odd.json")
	require.NoError(t, os.WriteFile(odd,
		[]byte(
			`{"n_layer":1,"d_model":31,"n_head":2,"d_head":16,"d_inner":64,"vocab":256,`+
				`"seg_len":32}`), 0o600))
	for want, args := range map[string][]string{
		"--init is empty, expected a model file": {"--phase", "meta"},
		`--phase is "posttrain", expected pretrain, meta or joint`: {"--phase",
			"posttrain"},
		"--phase is pretrain after meta": {"--phase",
			"meta,pretrain", "--init", "m"},
		`--store is "int8", expected float32, bf16 or f16`:       {"--store", "int8"},
		`--schedule is "sine", expected cosine, wsd or constant`: {"--schedule", "sine"},
		`--scheme is "batch", expected online or window`:         {"--scheme", "batch"},
		"--batch is -1, expected 1 to 4096":                      {"--batch", "-1"},
		"--patience is -1, expected 0 to ":                       {"--patience", "-1"},
		"--mixture is 0.5, expected 0 without a companion":       {"--mixture", "0.5"},
		"--companion is true, expected false with the scheme window": {"--companion",
			"--scheme", "window"},
		"--mixture is 2, expected 0 to 1": {"--companion",
			"--mixture", "2"},
		"--companion-share is 2, expected 0 to 1": {"--companion-share",
			"2"},
		"--joint-lr is 11, expected 0 to 10":                                {"--joint-lr", "11"},
		`--config huge: txl: configuration "huge" is not known`:             {"--config", "huge"},
		"--config " + broken + `: json: unknown field "width" (expected`:    {"--config", broken},
		"--config " + odd + ": txl: d_model is 31, expected an even number": {"--config", odd},
		`--tokenizer is "bpe", expected bytes or words`:                     {"--tokenizer", "bpe"},
		"--tokenizer is words, expected no value: the initial model": {"--tokenizer",
			"words", "--init", "m"},
		"--vocab-size is 2, expected 3 to 16777216, or 0": {"--tokenizer", "words", "--phase",
			"pretrain", "--vocab-size", "2"},
		"neither --out nor --checkpoints": {"--out", ""},
		"--report is " + filepath.Join(data, "r") + ", expected a path outside of ": {"--report",
			filepath.Join(data, "r")},
		"--metrics is " + filepath.Join(data, "m") + ", expected a path outside of ": {"--metrics",
			filepath.Join(data, "m")},
	} {
		_, stderr, code := lmserve("", append([]string{"train", "--data", data, "--out",
			filepath.Join(t.TempDir(), "m")}, args...)...)
		require.Equal(t, exitUsage, code, "%v: %s", args, stderr)
		require.Contains(t, stderr, want)
	}
}

// An error about an option names the flag that sets the option. This flag exists.
func TestOptionsAreNamedByFlags(t *testing.T) {
	c := newTrain()
	for _, row := range trainFlags {
		require.NotNil(t, c.Flags().Lookup(row.name), row.field)
	}
	for _, option := range []string{"Model", "Meta.Normal", "Meta.Online.Chunks",
		"Tokenizer.Size"} {
		err := trainError(&train.OptionError{Field: option, Found: "1", Want: "2"})
		require.ErrorAs(t, err, &usageError{})
		require.Regexp(t, "^--(config|normalize|meta-chunks|vocab-size) is 1, expected 2$",
			err.Error())
	}
	require.Equal(t, train.StoreDefault, c.Flags().Lookup("store").DefValue)
}

// The steps of window training do not depend on --steps.
func TestTrainHelpNamesTheStepsOfWindows(t *testing.T) {
	help := strings.Join(strings.Fields(must(t, "", "train", "--help")), " ")
	require.NotContains(t, help, "the value of --steps")
	require.Contains(t, help, "for window, three passes, 1 to 20 million tokens")
}
