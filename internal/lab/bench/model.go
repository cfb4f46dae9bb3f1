package bench

import (
	"fmt"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/sparsemeta"
	"github.com/lmserve/lmserve/tokenizer"
	"github.com/lmserve/lmserve/txl"
)

// The paper's settings of evaluation: tokens of a chunk, characters or words, and the probability
// that an element of the fast weights of a model of words is written.
const (
	paperChunk      = 128
	paperChunkWords = 50
	paperWordsP     = 0.3
)

// RandomModel is a model whose weights and meta-learners are drawn at random, with the
// paper's branches and one bank: what its speed depends on is there without a file. A vocabulary
// that is not that of bytes is one of words.
func RandomModel(name string, c txl.Config) (*model.Model, error) {
	lm, err := txl.NewModel(c)
	if err != nil {
		return nil, err
	}
	lm.Init(1)
	l := &sparsemeta.Learner{Settings: sparsemeta.PaperSettings()}
	l.Settings.Out = sparsemeta.TwoBankSettings().Out // fast weights as large as trained ones
	if l.Branches, err = model.Branches(lm.Layout, []string{"paper"}); err != nil {
		return nil, err
	}
	tok, chunk := tokenizer.Tokenizer(tokenizer.Bytes{}), paperChunk
	if c.Vocab != tok.Vocab() {
		if tok, err = madeUpWords(c.Vocab); err != nil {
			return nil, err
		}
		chunk, l.Settings.P = paperChunkWords, paperWordsP
	}
	l.Init(sparsemeta.InitHe(), 1)
	return model.NewOf(tok, name, lm, l, chunk, nil)
}

// madeUpWords is a vocabulary of the end of a line, unknown words, and w2, w3 and so on.
func madeUpWords(vocab int) (*tokenizer.Words, error) {
	symbols := []string{tokenizer.LineEnd, tokenizer.Unknown}
	for i := len(symbols); i < vocab; i++ {
		symbols = append(symbols, fmt.Sprint("w", i))
	}
	return tokenizer.NewWords(symbols)
}
