package bench

import (
	"fmt"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/sparsemeta"
	"github.com/lmserve/lmserve/tokenizer"
	"github.com/lmserve/lmserve/txl"
)

// Settings of the paper's evaluation. A chunk has paperChunk characters or paperChunkWords words.
// For words, an update writes each element of the fast weights with probability paperWordsP.
const (
	paperChunk      = 128
	paperChunkWords = 50
	paperWordsP     = 0.3
)

// RandomModel returns a model with random weights, with the paper's branches and one bank. It needs
// no file, and computes as fast as a trained model. If the vocabulary does not have 256 tokens, the
// tokens are words.
func RandomModel(name string, c txl.Config) (*model.Model, error) {
	lm, err := txl.NewModel(c)
	if err != nil {
		return nil, err
	}
	lm.Init(1)
	l := &sparsemeta.Learner{Settings: sparsemeta.PaperSettings()}
	// makes fast weights as small as those of a trained model
	l.Settings.Out = sparsemeta.TwoBankSettings().Out
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

// madeUpWords returns a vocabulary of invented words, with symbols for the end of a line and for
// unknown words.
func madeUpWords(vocab int) (*tokenizer.Words, error) {
	symbols := []string{tokenizer.LineEnd, tokenizer.Unknown}
	for i := len(symbols); i < vocab; i++ {
		symbols = append(symbols, fmt.Sprint("w", i))
	}
	return tokenizer.NewWords(symbols)
}
