package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/txl"
)

const english = "../../internal/learning/checkpoint/sample.txt"

func wordsOf(t *testing.T, more int) (file string, words int) {
	text, err := os.ReadFile(english)
	require.NoError(t, err)
	symbols, seen := []string{"<eos>", "<unk>"}, map[string]bool{}
	for _, word := range strings.Fields(string(text)) {
		if !seen[word] {
			seen[word], symbols = true, append(symbols, word)
		}
	}
	words = len(symbols)
	for i := range more {
		symbols = append(symbols, fmt.Sprint("word", i))
	}
	file = filepath.Join(t.TempDir(), "vocab.txt")
	require.NoError(t, os.WriteFile(file, []byte(strings.Join(symbols, "\n")+"\n"), 0o600))
	return file, words
}

// The model favors the first column of cluster logits. In ascending order, this column belongs to
// the first cluster, which has the English words. The command convert warns if descending order is
// requested.
func TestConvertWarnsOfTheOtherOrder(t *testing.T) {
	const strangers = 200
	vocab, words := wordsOf(t, strangers)
	dir, _ := huggingFolderOf(t, txl.Config{NLayer: 1, DModel: 8, NHead: 2, DHead: 4, DInner: 12,
		Vocab: words + strangers, SegLen: 16, MemLen: 2048, Cutoffs: []int{20, words}, DivVal: 2,
		TieProjs: []bool{true, true, true}},
		map[string]func([]float32){
			"crit.cluster_bias": func(bias []float32) { bias[0], bias[1] = 3, -3 },
		})
	for _, is := range []struct {
		order, says string
		warns       bool
	}{
		{"auto", "ascending, because config.json has Hugging Face's model type", false},
		{"ascending", "ascending, because --cluster-order says", false},
		{"descending", "descending, because --cluster-order says", true},
	} {
		out := filepath.Join(t.TempDir(), "m.safetensors")
		stdout, stderr, code := lmserve("",
			"convert", dir, "--vocab", vocab, "--out", out, "--cluster-order", is.order)
		require.Zero(t, code, stderr)
		require.Contains(t, stdout, "  order of the clusters: "+is.says)
		require.Regexp(t, fmt.Sprintf(`  perplexity of a sample of English: [0-9.e+]+, `+
			`with (a|de)scending clusters [0-9.e+]+; a uniform guess has %d\n`, words+strangers),
			stdout)
		if is.warns {
			require.Regexp(t,
				"English better with ascending clusters: perplexity [0-9.e+]+, "+
					"compared with [0-9.e+]+ "+
					"with descending clusters; try --cluster-order ascending\\n", stderr)
			require.Contains(t, stderr, "no better than a uniform guess")
		} else {
			require.Empty(t, stderr)
		}
	}
	_, stderr, code := lmserve("", "convert", dir, "--out", "m", "--cluster-order", "reverse")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr,
		`--cluster-order is "reverse", expected auto, ascending or descending`)
}

// A byte model that gives letters a low probability predicts English worse than a uniform guess.
// The command convert warns of this model, but not of a model that gives letters a high
// probability.
func TestConvertWarnsOfAModelThatOnlyGuesses(t *testing.T) {
	for letters, warns := range map[float32]bool{8: false, -8: true} {
		dir, _ := huggingFolderOf(t, txl.Config{NLayer: 1, DModel: 8, NHead: 2, DHead: 4,
			DInner: 12,
			Vocab:  256, SegLen: 16, MemLen: 16},
			map[string]func([]float32){"crit.out_layers.0.bias": func(bias []float32) {
				for c := 'a'; c <= 'z'; c++ {
					bias[c] = letters
				}
			}})
		out := filepath.Join(t.TempDir(), "m.safetensors")
		stdout, stderr, code := lmserve("", "convert", dir, "--out", out)
		require.Zero(t, code, stderr)
		require.Regexp(t, `perplexity of a sample of English: [0-9.e+]+; a uniform guess has 256\n`,
			stdout)
		require.NotContains(t, stdout, "order of the clusters")
		if warns {
			require.Regexp(t,
				`no better than a uniform guess: perplexity [0-9.e+]+ of 512 tokens, `+
					`expected less than 256; .* check --vocab and the settings`, stderr)
		} else {
			require.Empty(t, stderr)
		}
	}
}

// If the vocabulary has few words of the English sample, the command convert draws no conclusion
// about the model.
func TestConvertChecksNoUnknownWords(t *testing.T) {
	dir, _ := huggingFolder(t, 3)
	vocab := filepath.Join(dir, "vocab.txt")
	require.NoError(t, os.WriteFile(vocab, []byte("<eos>\nthe\n<unk>\n"), 0o600))
	out := filepath.Join(t.TempDir(), "m.safetensors")
	stdout, stderr, code := lmserve("", "convert", dir, "--out", out)
	require.Zero(t, code, stderr)
	require.Regexp(t, `perplexity not checked: the vocabulary lacks \d+ of \d+ words`, stdout)
	require.Empty(t, stderr)
}
