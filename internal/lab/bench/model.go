package bench

import (
	"fmt"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/sparsemeta"
	"github.com/lmserve/lmserve/tokenizer"
	"github.com/lmserve/lmserve/txl"
)

// The paper's settings at evaluation. paperChunk and paperChunkWords are the tokens of a chunk for
// a model of characters and of words. For words, paperWordsP is the probability that an update
// writes an element of the fast weights.
const (
	paperChunk      = 128
	paperChunkWords = 50
	paperWordsP     = 0.3
)

// RandomModel returns a model with random weights and meta-learners, with the paper's branches and
// one bank. It is as fast as a trained model, and needs no file. If the vocabulary does not have
// 256 tokens, the tokens are words.
func RandomModel(name string, c txl.Config) (*model.Model, error) {
	lm, err := txl.NewModel(c)
	if err != nil {
		return nil, err
	}
	lm.Init(1)
	l := &sparsemeta.Learner{Settings: sparsemeta.PaperSettings()}
	l.Settings.Out = sparsemeta.TwoBankSettings().Out // fast weights as large as a trained model's
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

// madeUpWords returns a vocabulary with symbols for the end of a line and for unknown words, and
// the words w2, w3 and so on.
func madeUpWords(vocab int) (*tokenizer.Words, error) {
	symbols := []string{tokenizer.LineEnd, tokenizer.Unknown}
	for i := len(symbols); i < vocab; i++ {
		symbols = append(symbols, fmt.Sprint("w", i))
	}
	return tokenizer.NewWords(symbols)
}
