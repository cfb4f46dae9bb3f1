package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/tokenizer"
	"github.com/lmserve/lmserve/txl"
	"github.com/lmserve/lmserve/weights"
)

// huggingFolder writes a small model in the format of Hugging Face's library, and returns the
// model.
func huggingFolder(t *testing.T, vocab int) (dir string, m *txl.Model) {
	return huggingFolderOf(t, txl.Config{
		NLayer: 2, DModel: 8, NHead: 2, DHead: 4, DInner: 12, Vocab: vocab, SegLen: 16, MemLen: 16,
	}, nil)
}

// huggingFolderOf is like huggingFolder, but with a given configuration. The functions in set fill
// tensors, by tensor name.
func huggingFolderOf(t *testing.T, c txl.Config, set map[string]func(bias []float32)) (
	dir string, m *txl.Model,
) {
	m, err := txl.NewModel(c)
	require.NoError(t, err)
	m.Init(1)
	for name, fill := range set {
		fill(m.Tensor(m.Layout.Index(name)))
	}
	f := &weights.File{}
	for i, tensor := range m.Layout.Tensors {
		f.Tensors = append(f.Tensors, weights.F32Tensor(tensor.Name, tensor.Shape, m.Tensor(i)))
	}
	dir = t.TempDir()
	require.NoError(t,
		weights.WriteFile(filepath.Join(dir, "model.safetensors"), f, weights.WriteOptions{}))
	config, err := json.Marshal(
		map[string]any{"model_type": "transfo-xl", "mem_len": 16, "pre_lnorm": false},
	)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), config, 0o600))
	return dir, m
}

func TestConvertedModelServes(t *testing.T) {
	dir, want := huggingFolder(t, 256)
	for _, name := range []string{"m.safetensors", "m.safetensors.zst"} {
		out := filepath.Join(t.TempDir(), name)
		text := must(t, "", "convert", dir, "--out", out, "--name", "mine")
		require.Contains(t, text, out+": 26 tensors, ")
		m, err := model.Load(out)
		require.NoError(t, err)
		require.Equal(t, "mine", m.Name)
		require.Equal(t, want.W, m.LM.W)
		require.Equal(t, want.Config, m.LM.Config)
		require.Contains(t, must(t, "the text", "score", "--model", out, "--total", "-"), "8 bytes")
	}
}

func TestConvertedModelIsNamedAfterItsSource(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "transfo-xl-v1.5")
	from, _ := huggingFolder(t, 256)
	require.NoError(t, os.Rename(from, dir))
	t.Chdir(dir)
	for from, name := range map[string]string{
		dir: "transfo-xl-v1.5", ".": "transfo-xl-v1.5", "model.safetensors": "model",
	} {
		out := filepath.Join(t.TempDir(), "m.safetensors")
		must(t, "", "convert", from, "--out", out)
		m, err := model.Load(out)
		require.NoError(t, err)
		require.Equal(t, name, m.Name)
	}
}

func TestConvertTakesAVocabulary(t *testing.T) {
	dir, _ := huggingFolder(t, 3)
	out := filepath.Join(t.TempDir(), "m.safetensors")
	vocab := filepath.Join(dir, "vocab.txt")
	require.NoError(t, os.WriteFile(vocab, []byte("<eos>\n<unk>\n"), 0o600))
	_, stderr, code := lmserve("", "convert", dir, "--out", out)
	require.Equal(t, exitFailure, code)
	require.Contains(t, stderr, "vocab.txt: found 2 symbols, expected 3")
	require.NoError(t, os.WriteFile(vocab, []byte("<eos>\nthe\n<unk>\n"), 0o600))
	must(t, "", "convert", dir, "--out", out)
	f, err := weights.ReadFile(out)
	require.NoError(t, err)
	require.Equal(t, `{"kind":"words"}`, f.Metadata["lmserve.tokenizer"])
	symbols, ok := f.Tensor(model.SymbolsTensor)
	require.True(t, ok)
	require.Equal(t, "<eos>\nthe\n<unk>\n", string(symbols.Data))
}

func TestConvertedModelOfWordsIsMetaTrained(t *testing.T) {
	symbols := []string{"<eos>", "fox", "the", "brown", "prose/a", "<unk>"}
	dir, want := huggingFolder(t, len(symbols))
	vocab := strings.Join(symbols, "\n") + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "vocab.txt"), []byte(vocab), 0o600))
	static := filepath.Join(t.TempDir(), "static.safetensors.zst")
	must(t, "", "convert", dir, "--out", static, "--name", "mine")

	out := filepath.Join(t.TempDir(), "mine.safetensors.zst")
	text := must(t, "", "train", "--phase", "meta", "--init", static, "--data", foxes(t),
		"--out", out, "--meta-steps", "4", "--store", "float32")
	require.Contains(t, text, "meta: 4 steps, 1600 tokens, training perplexity ")
	require.Regexp(t, `valid perplexity static \d+\.\d+, adaptive \d+\.\d+, [+-]\d`, text)
	m, err := model.Load(out)
	require.NoError(t, err)
	require.Equal(t, want.W, m.LM.W)
	require.Equal(t, "mine", m.Name)
	require.Equal(t, []byte(vocab), m.Tokenizer.Symbols())
	require.Equal(t, 50, m.Chunk)
	require.Equal(t, .3, m.Learner.Settings.P)

	// With an untied softmax, training starts from the same static model.
	config := filepath.Join(t.TempDir(), "untied.json")
	require.NoError(t, os.WriteFile(config,
		[]byte(`{"n_layer":2,"d_model":8,"n_head":2,"d_head":4,`+
			`"d_inner":12,"seg_len":16,"mem_len":16,"untie_softmax":true}`), 0o600))
	untied := filepath.Join(t.TempDir(), "untied.safetensors.zst")
	other := must(t, "", "train", "--phase", "meta", "--init", static, "--config", config,
		"--data", foxes(t), "--out", untied, "--meta-steps", "4", "--store", "float32",
		"--branches", "softmax")
	perplexity := regexp.MustCompile(`valid perplexity static [0-9.]+`)
	require.Equal(t, perplexity.FindString(text), perplexity.FindString(other))
	m, err = model.Load(untied)
	require.NoError(t, err)
	require.Equal(t, want.UntieSoftmax().W, m.LM.W)
	require.Equal(t, "crit.out_layers.0.weight", m.Learner.Branches[0].Name)
	scored := func(threads string) string {
		return must(t, strings.Repeat("the brown fox\nthe fox fox ", 20), "score", "--model",
			untied,
			"--compare", "--total-only", "--chunk", "16", "--threads", threads, "-")
	}
	require.Equal(t, scored("1"), scored("3"))
}

func TestConvertSaysWhatIsWrong(t *testing.T) {
	dir, _ := huggingFolder(t, 256)
	file, out := filepath.Join(dir, "model.safetensors"), filepath.Join(t.TempDir(),
		"m.safetensors")
	evil := filepath.Join(t.TempDir(), "evil.pt")
	require.NoError(t,
		os.WriteFile(evil, []byte("\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R."), 0o600))
	require.NoError(t, os.Remove(filepath.Join(dir, "config.json")))
	for _, is := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{file}, exitUsage, "--out is missing"},
		{[]string{file, "--out", file}, exitFailure, "file already exists"},
		{[]string{file, "--out", out}, exitUsage,
			"expected --mem-len and --pre-lnorm, or --config"},
		{[]string{file, "--out", out, "--config", "tiny"}, exitFailure,
			"25 of a wrong shape: word_emb.emb_layers.0.weight [256,8], expected [256,64], "},
		{[]string{evil, "--out", out}, exitFailure,
			evil + `: pickle at byte 2: found "os.system", expected`},
		{[]string{filepath.Join(dir, "none"), "--out", out}, exitFailure, "no such file"},
	} {
		_, stderr, code := lmserve("", append([]string{"convert"}, is.args...)...)
		require.Equal(t, is.code, code, stderr)
		require.Contains(t, stderr, is.says)
		require.NoFileExists(t, out)
	}
	must(t, "", "convert", file, "--out", out, "--mem-len", "16", "--pre-lnorm=false")
}

// A model of words is converted from a PyTorch state dict. For the text of the reference file, the
// model has the loss that a reference implementation computed.
func TestConvertedModelOfWordsGivesReferenceNumbers(t *testing.T) {
	for _, file := range []struct{ name, memory, chunk, preLNorm, cutoffs string }{
		{"small", "12", "8", "false", ""},
		{"own_tables", "6", "7", "true", ""}, {"own_table", "8", "6", "false", "4,9"},
	} {
		t.Run(file.name, func(t *testing.T) {
			reference, err := weights.ReadFile(
				"../../internal/lab/conformance/testdata/adasoftmax_" + file.name + ".safetensors",
			)
			require.NoError(t, err)
			text, symbols, bits := referenceText(t, reference)
			dict := &weights.File{}
			for _, tensor := range reference.Tensors {
				if !strings.HasPrefix(tensor.Name, "seg") &&
					!strings.HasPrefix(tensor.Name, "grad.") {
					dict.Tensors = append(dict.Tensors, tensor)
				}
			}
			dir := t.TempDir()
			from, out := filepath.Join(dir, "dict.safetensors"), filepath.Join(dir, "m.safetensors")
			require.NoError(t, weights.WriteFile(from, dict, weights.WriteOptions{}))
			vocab := filepath.Join(dir, "vocab.txt")
			require.NoError(t, os.WriteFile(vocab, []byte(strings.Join(symbols, "\n")+"\n"), 0o600))
			args := []string{"convert", from, "--vocab", vocab, "--mem-len", file.memory,
				"--pre-lnorm=" + file.preLNorm, "--out", out}
			if file.cutoffs != "" {
				args = append(args, "--cutoffs", file.cutoffs)
			}
			must(t, "", args...)
			var total struct{ Bits float64 }
			printed := must(t, text,
				"score", "--model", out, "--chunk", file.chunk, "--companion=false",
				"--total-only", "--json", "-")
			require.NoError(t, json.Unmarshal([]byte(printed), &total))
			require.InDelta(t, bits, total.Bits, 1e-3)
		})
	}
}

// referenceText returns the first sequence of a reference file as a text, with its vocabulary and
// its bits. The first input token becomes the line end, because scoring assumes a line end before
// the text.
func referenceText(t *testing.T, f *weights.File) (text string, symbols []string, bits float64) {
	vocab, err := strconv.Atoi(f.Metadata["vocab"])
	require.NoError(t, err)
	symbols = make([]string, vocab)
	for id := range symbols {
		symbols[id] = fmt.Sprintf("w%d", id)
	}
	numbers := func(name string) []float32 {
		tensor, ok := f.Tensor(name)
		require.True(t, ok, name)
		all := make([]float32, tensor.Elements())
		if ids, err := tensor.Int32s(); err == nil {
			for i, id := range ids {
				all[i] = float32(id)
			}
		} else {
			all, err = tensor.Float32s()
			require.NoError(t, err)
		}
		var first []float32
		for at := 0; at < len(all); at += tensor.Shape[1] {
			first = append(first, all[at])
		}
		return first
	}
	start := int(numbers("seg0.input")[0])
	symbols[start], symbols[(start+1)%vocab] = tokenizer.LineEnd, tokenizer.Unknown
	for _, segment := range []string{"seg0", "seg1", "seg2"} {
		for _, id := range numbers(segment + ".target") {
			text += symbols[int(id)] + " "
		}
		for _, nll := range numbers(segment + ".nll") {
			bits += float64(nll) / math.Ln2
		}
	}
	return strings.ReplaceAll(text, tokenizer.LineEnd, "\n"), symbols, bits
}
