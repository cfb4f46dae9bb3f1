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

// Chunk is the number of tokens between two updates of the fast weights in the test models.
const Chunk = 16

// Small returns New(7), which it builds once: all callers share the model.
var Small = sync.OnceValues(func() (*model.Model, error) { return New(7) })

// SmallOfWords returns NewOfWords(7), which it builds once: all callers share the model.
var SmallOfWords = sync.OnceValues(func() (*model.Model, error) { return NewOfWords(7) })

// SmallOfProse returns a model like SmallOfWords, with more tokens for punctuation. All callers
// share the model.
var SmallOfProse = sync.OnceValues(func() (*model.Model, error) {
	return NewOfWords(7, "@-@", "@,@", "@.@", "?", "\"", "(", ")", "'s", "n't", "%")
})

// SmallFile writes the model of Small to a file in a folder and returns the file's path.
func SmallFile(folder string) (file string, err error) {
	m, err := Small()
	if err != nil {
		return "", err
	}
	file = filepath.Join(folder, "small.safetensors")
	return file, weights.WriteFile(file, m.File(), weights.WriteOptions{})
}

// Vocabulary lists the words of the model that NewOfWords returns. WordText also uses words outside
// Vocabulary.
var Vocabulary = []string{
	tokenizer.LineEnd, "the", "of", tokenizer.Unknown, "a", "cat", "dog", "sat", "on", "mat", ",",
	".",
	"house", "every", "night", "The", "é", "and", "with", "extraordinarily",
}

// WordText returns a test text with the given number of lines. The text has many kinds of white
// space, unknown words, and empty lines.
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

// Prose is a text with punctuation. The tokenizer of SmallOfProse splits words of this text into
// several tokens.
const Prose = "\"The cat-house?\" a dog said; it (the mat) isn't the cat's, and 35,000.5% of a " +
	"night\n" +
	"(the-cat-and-a-dog-on-the-mat) a-b-c-d-e-f-g-h U.S. \"\"\u00a0\"(the)\".\n\n"

// NewOfWords returns a random word model with adaptive softmax. The vocabulary consists of
// Vocabulary and the words in parameter `more`.
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

// New returns a small byte model with random weights that depend on the seed. The model has two
// banks and gradient statistics, so every method of adaptation works with it. The fast weights are
// large enough to change every score after the first chunk.
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
		// the minimum, because the companion's table takes most of a session's memory
		m.CompanionBytes = 1 << 16
	}
	return m.WithStatistics(rms)
}
