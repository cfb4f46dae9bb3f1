package model

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/tokenizer"
	"github.com/lmserve/lmserve/txl"
	"github.com/lmserve/lmserve/weights"
)

// smallOfWords returns a model whose vocabulary contains a word that is not valid UTF-8.
func smallOfWords(t *testing.T) *Model {
	tok, err := tokenizer.NewWords([]string{tokenizer.LineEnd, "the", tokenizer.Unknown, "é",
		"\xff"})
	require.NoError(t, err)
	lm, err := txl.NewModel(txl.Config{
		NLayer: 1, DModel: 8, NHead: 2, DHead: 4, DInner: 12, Vocab: 5, SegLen: 8, MemLen: 8,
	})
	require.NoError(t, err)
	lm.Init(1)
	m, err := NewOf(tok, "small", lm, nil, 8, nil)
	require.NoError(t, err)
	return m
}

func TestModelOfWordsKeepsItsVocabulary(t *testing.T) {
	m := smallOfWords(t)
	back, err := FromFile(m.File())
	require.NoError(t, err)
	require.Equal(t, m.Tokenizer, back.Tokenizer)
	require.Equal(t, m.LM.W, back.LM.W)
	require.Equal(t, m.ID(), back.ID())
}

func TestVocabulariesThatDoNotFitAreRefused(t *testing.T) {
	last := func(f *weights.File) *weights.Tensor { return &f.Tensors[len(f.Tensors)-1] }
	for want, spoil := range map[string]func(*weights.File){
		"found no vocabulary, expected one for the tokenizer of words": func(f *weights.File) {
			f.Tensors = f.Tensors[:len(f.Tensors)-1]
		},
		"vocab is 5, but the tokenizer has 2 tokens": func(f *weights.File) {
			last(f).Data, last(f).Shape = []byte("<eos>\n<unk>\n"), []int{12}
		},
		"expected type U8 and one dimension": func(f *weights.File) {
			last(f).Shape = []int{1, len(last(f).Data)}
		},
		"a vocabulary for the tokenizer of bytes": func(f *weights.File) {
			f.Metadata[keyTokenizer] = tokenizer.Bytes{}.Describe()
		},
	} {
		f := smallOfWords(t).File()
		spoil(f)
		_, err := FromFile(f)
		require.ErrorContains(t, err, want)
	}
}
