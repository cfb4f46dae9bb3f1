package train

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/tokenizer"
	"github.com/lmserve/lmserve/txl"
	"github.com/lmserve/lmserve/weights"
)

// tinyWords pretrains the tiny model on words. The text has 15 frequent words and a rare one.
func tinyWords(t *testing.T) Options {
	o := TinyPretraining(t)
	o.Tokenizer.Kind = tokenizer.KindWords
	o.Valid = WriteTree(t, map[string]string{"a": "red green\n\nyellow blue red"})
	o.Validation.Every = 6
	require.NoError(t, os.WriteFile(filepath.Join(o.Data, "rare"), []byte("rare rare\n"), 0o600))
	return o
}

func TestPretrainingOnWordsLearns(t *testing.T) {
	o := tinyWords(t)
	o.Pretrain.Steps, o.Pretrain.SlowOptions = 60, SlowOptions{Rate: 1e-2, Warmup: 5}
	o.Out = filepath.Join(t.TempDir(), "words")
	told := &recorder{}
	o.Observer = told
	done, err := Run(context.Background(), o)
	require.NoError(t, err)
	require.Contains(t, told.notes(), "vocabulary: 17 symbols; the text is ")
	require.Contains(t, told.notes(), " tokens, 0.03 % of them unknown words")
	require.Equal(t, &WordCount{Tokens: 8, Unknown: 1}, done.Stored.Words, "three of them <eos>")
	require.Less(t, done.Phases[0].Bits(), 3.5, "less than the 4 bits of knowing nothing")
	require.Contains(t, done.String(), "training perplexity ")
	require.Contains(t, done.String(), "valid perplexity static ")
	require.Contains(t, done.String(), "(8 tokens, 12.50 % of them unknown words)")

	f, err := weights.ReadFile(o.Out)
	require.NoError(t, err)
	symbols, _ := f.Tensor(model.SymbolsTensor)
	words, err := tokenizer.ReadSymbols(symbols.Data)
	require.NoError(t, err)
	require.Equal(t, 17, words.Vocab())
	require.Equal(t, words.Unknown(), words.ID([]byte("rare")))
	require.NotEqual(t, words.Unknown(), words.ID([]byte("green")))
	require.JSONEq(t, `{"kind":"words"}`, f.Metadata["lmserve.tokenizer"])
	require.Contains(t, f.Metadata["lmserve.config"], `"vocab":17`)
	require.Contains(t, f.Metadata["lmserve.adapt"], `"chunk":16`)
}

func TestPretrainingOnWordsResumesToTheSameBits(t *testing.T) {
	requireSameResult(t, tinyWords(t), 3, 8)
}

func TestPretrainingWithTablesOfTheSoftmaxsOwn(t *testing.T) {
	o := tinyWords(t)
	o.Model.Cutoffs, o.Model.DivVal, o.Model.UntieSoftmax = []int{6, 11}, 2, true
	requireSameResult(t, o, 3, 8)
	o.Pretrain.Steps, o.Pretrain.SlowOptions = 240, SlowOptions{Rate: 1e-2, Warmup: 5}
	o.Out = filepath.Join(t.TempDir(), "words")
	done, err := Run(context.Background(), o)
	require.NoError(t, err)
	require.Less(t, done.Phases[0].Bits(), 3.5, "less than the 4 bits of knowing nothing")
	m, err := model.Load(o.Out)
	require.NoError(t, err)
	require.True(t, m.LM.Config.UntieSoftmax)
	require.Equal(t, weights.BF16, m.Store)
	for _, number := range []string{"0", "1", "2"} {
		in := m.LM.Tensor(m.LM.Layout.Index("word_emb.emb_layers." + number + ".weight"))
		out := m.LM.Tensor(m.LM.Layout.Index("crit.out_layers." + number + ".weight"))
		require.Len(t, out, len(in))
		require.NotEqual(t, in, out)
	}
}

func TestVocabularyIsPartOfRecipe(t *testing.T) {
	o := tinyWords(t)
	o.Dir = t.TempDir()
	_, err := Run(context.Background(), o)
	require.NoError(t, err)
	o.Resume, o.Tokenizer.MinCount = true, 4 // MinCount 4 happens to give the same words
	_, err = Run(context.Background(), o)
	require.ErrorContains(t, err, "words.min_count is 3 in the checkpoint and 4 in this run")
	o.Tokenizer.MinCount, o.Tokenizer.Vocabulary = 0, filepath.Join(t.TempDir(), "vocab.txt")
	few := []byte("<eos> 9\nred 7\n<unk> 3\n")
	require.NoError(t, os.WriteFile(o.Tokenizer.Vocabulary, few, 0o600))
	_, err = Run(context.Background(), o)
	require.ErrorContains(t, err, "is from a different run: model.vocab is 17 in the "+
		"checkpoint and 3 in this run")
}

func TestVocabulariesOfRunsAreChecked(t *testing.T) {
	o := tinyWords(t)
	o.Tokenizer.Vocabulary = filepath.Join(t.TempDir(), "vocab.txt")
	_, err := Run(context.Background(), o)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, o.Tokenizer.Vocabulary)
	require.NoError(t, os.WriteFile(o.Tokenizer.Vocabulary, []byte("<eos>\nred car\n"), 0o600))
	_, err = Run(context.Background(), o)
	require.ErrorIs(t, err, tokenizer.ErrVocabulary)
	require.ErrorContains(t, err, o.Tokenizer.Vocabulary+": tokenizer: vocabulary: line 2: ")

	for want, change := range map[string]func(*Options){
		`Tokenizer.Kind is "bpe", expected bytes or words`: func(
			o *Options) {
			o.Tokenizer.Kind = "bpe"
		},
		"Tokenizer.Kind is bytes, expected words, because a vocabulary": func(
			o *Options) {
			o.Tokenizer.Kind, o.Tokenizer.Size = "", 9
		},
		"Tokenizer.Kind is words, expected no value: the initial model": func(
			o *Options) {
			o.Init = "m"
		},
		"Tokenizer.Size is 2, expected 3 to 16777216, or 0": func(
			o *Options) {
			o.Tokenizer.Size = 2
		},
		"Tokenizer.MinCount is -1, expected 0 to": func(o *Options) {
			o.Tokenizer.MinCount =
				-1
		},
		"Meta.Chunk is 1, expected 2 to 1024 for a model": func(o *Options) { o.Meta.Chunk = 1 },
		"Tokenizer.Size is 9, expected no value: the vocabulary": func(o *Options) {
			o.Tokenizer.Vocabulary, o.Tokenizer.Size = "vocab.txt", 9
		},
		"Tokenizer.MinCount is 3, expected no value: the vocabulary": func(o *Options) {
			o.Tokenizer.Vocabulary, o.Tokenizer.MinCount = "vocab.txt", 3
		},
	} {
		o := tinyWords(t)
		change(&o)
		_, err := Run(context.Background(), o)
		var option *OptionError
		require.ErrorAs(t, err, &option)
		require.ErrorContains(t, err, want)
	}
}

func TestHeldOutWordsAreNotInTheVocabulary(t *testing.T) {
	o := tinyWords(t)
	o.HoldOut = []string{"domain1"}
	r, _, err := open(t.Context(), o)
	require.NoError(t, err)
	defer r.x.Close()
	words := r.base.Tokenizer.(*tokenizer.Words)
	require.Equal(t, 13, words.Vocab())
	require.NotContains(t, strings.Fields(string(words.Symbols())), "four")
	require.Less(t, r.seen.Tokens(), r.text.Tokens())
}

func TestWordsHaveTheDefaultsOfThePaper(t *testing.T) {
	o := Options{Tokenizer: TokenizerOptions{Kind: tokenizer.KindWords}}.withDefaults()
	require.EqualValues(t, MinCountDefault, o.Tokenizer.MinCount)
	words := &model.Model{LM: &txl.Model{Config: tinyModel}, Tokenizer: &tokenizer.Words{}}
	o.complete(words, 1000)
	require.Equal(t, 50, o.Meta.Chunk)
	require.Equal(t, .3, o.Meta.Settings.P)
	require.Equal(t, []int{4, 150}, []int{o.Meta.Window.K, o.Meta.Window.GradientChunk})
	o = Options{Tokenizer: TokenizerOptions{Kind: tokenizer.KindWords}}
	o.Tokenizer.Size = 500
	require.Zero(t, o.withDefaults().Tokenizer.MinCount, "a size is enough")
}
