package bench

import (
	"fmt"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/sparsemeta"
	"github.com/lmserve/lmserve/tokenizer"
	"github.com/lmserve/lmserve/txl"
)

// The paper's settings at evaluation: tokens of a chunk, for characters or words, and the
// probability that an element of the fast weights of a model of words is written.
const (
	paperChunk      = 128
	paperChunkWords = 50
	paperWordsP     = 0.3
)

// RandomModel returns a model with random weights and meta-learners, with the paper's branches
// and one bank. It has the speed of a trained model without a file. A vocabulary of other than
// 256 tokens is one of words.
func RandomModel(name string, c txl.Config) (*model.Model, error) {
	lm, err := txl.NewModel(c)
	if err != nil {
		return nil, err
	}
	lm.Init(1)
	l := &sparsemeta.Learner{Settings: sparsemeta.PaperSettings()}
	l.Settings.Out = sparsemeta.TwoBankSettings().Out // fast weights of the size of trained ones
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

// madeUpWords returns a vocabulary of the end of a line, unknown words, and w2, w3 and so on.
func madeUpWords(vocab int) (*tokenizer.Words, error) {
	symbols := []string{tokenizer.LineEnd, tokenizer.Unknown}
	for i := len(symbols); i < vocab; i++ {
		symbols = append(symbols, fmt.Sprint("w", i))
	}
	return tokenizer.NewWords(symbols)
}
