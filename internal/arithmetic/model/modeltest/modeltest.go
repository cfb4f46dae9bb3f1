// Package modeltest makes the small random model that tests of other packages share.
package modeltest

import (
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/sparsemeta"
	"github.com/lmserve/lmserve/tokenizer"
	"github.com/lmserve/lmserve/txl"
	"github.com/lmserve/lmserve/weights"
)

// Chunk is the number of tokens in a chunk of the model.
const Chunk = 16

// Small returns the model New(7). The model is made only once.
var Small = sync.OnceValues(func() (*model.Model, error) { return New(7) })

// SmallOfWords returns the model NewOfWords(7). The model is made only once.
var SmallOfWords = sync.OnceValues(func() (*model.Model, error) { return NewOfWords(7) })

// SmallOfProse is like SmallOfWords, with further tokens for punctuation. The model is made only
// once.
var SmallOfProse = sync.OnceValues(func() (*model.Model, error) {
	return NewOfWords(7, "@-@", "@,@", "@.@", "?", "\"", "(", ")", "'s", "n't", "%")
})

// SmallFile writes Small to a file in a folder.
func SmallFile(folder string) (file string, err error) {
	m, err := Small()
	if err != nil {
		return "", err
	}
	file = filepath.Join(folder, "small.safetensors")
	return file, weights.WriteFile(file, m.File(), weights.WriteOptions{})
}

// Vocabulary is the vocabulary of NewOfWords. WordText also uses words that are not in it.
var Vocabulary = []string{
	tokenizer.LineEnd, "the", "of", tokenizer.Unknown, "a", "cat", "dog", "sat", "on", "mat", ",",
	".",
	"house", "every", "night", "The", "é", "and", "with", "extraordinarily",
}

// WordText returns a text with the given number of lines for a model of words. It has white space
// of many kinds, unknown words, and empty lines.
func WordText(lines int) string {
	kinds := []string{
		"The cat sat on the mat .", "", "the  dog\tand a cat,", "every night ,\u00a0the " +
			"extraordinarily é",
		" of a house with a dog and a zebra and", "xylophone", "a",
		"the house of the cat . The dog sat on a mat with the cat and the house\r",
	}
	var text strings.Builder
	for i := range lines {
		text.WriteString(kinds[i*i%31%len(kinds)])
		text.WriteByte('\n')
	}
	return text.String()
}

// Prose is a text with punctuation, whose words SmallOfProse cuts into several tokens.
const Prose = "\"The cat-house?\" a dog said; it (the mat) isn't the cat's, and 35,000.5% of a " +
	"night\n" +
	"(the-cat-and-a-dog-on-the-mat) a-b-c-d-e-f-g-h U.S. \"\"\u00a0\"(the)\".\n\n"

// NewOfWords returns a model like New, but of words: with adaptive softmax, and with Vocabulary and
// the words in `more` as its vocabulary.
func NewOfWords(seed uint64, more ...string) (*model.Model, error) {
	tok, err := tokenizer.NewWords(slices.Concat(Vocabulary, more))
	if err != nil {
		return nil, err
	}
	return newOf(tok, seed, txl.Config{
		NLayer: 1, DModel: 8, NHead: 2, DHead: 4, DInner: 12, Vocab: tok.Vocab(), SegLen: Chunk,
		MemLen: 20, Cutoffs: []int{8}, DivVal: 2, TieProjs: []bool{false},
	})
}

// New returns a model with a few random weights, which depend on the seed. It can serve every
// method of adaptation: it has two banks and statistics of gradients. Its fast weights are large
// enough to change every score after the first chunk.
func New(seed uint64) (*model.Model, error) {
	return newOf(tokenizer.Bytes{}, seed, txl.Config{
		NLayer: 1, DModel: 8, NHead: 2, DHead: 4, DInner: 12, Vocab: 256, SegLen: Chunk, MemLen: 20,
	})
}

func newOf(tok tokenizer.Tokenizer, seed uint64, config txl.Config) (*model.Model, error) {
	lm, err := txl.NewModel(config)
	if err != nil {
		return nil, err
	}
	lm.Init(seed)
	rms := make([]float32, len(lm.W))
	for i := range lm.W {
		lm.W[i] *= 5 // larger weights make the predictions far from uniform
		rms[i] = 1e-3 * float32(1+i%7)
	}
	branches, err := model.Branches(lm.Layout, nil)
	if err != nil {
		return nil, err
	}
	learner := &sparsemeta.Learner{Branches: branches, Settings: sparsemeta.TwoBankSettings()}
	learner.Settings.Out = 1
	learner.Init(sparsemeta.InitHe(), seed+4)
	card := []byte(`{"data":"none","bpc":7.5,"held_out":{"a":1}}`)
	m, err := model.NewOf(tok, "small", lm, learner, Chunk, card)
	if err != nil {
		return nil, err
	}
	if !m.OfWords() {
		m.CompanionBytes = 1 << 16 // the minimum, because the table is most of a session's memory
	}
	return m.WithStatistics(rms)
}
