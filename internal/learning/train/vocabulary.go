package train

import (
	"context"
	"fmt"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/lmserve/lmserve/internal/learning/train/corpus"
	"github.com/lmserve/lmserve/internal/serving/reload"
	"github.com/lmserve/lmserve/tokenizer"
)

const textInterval = 5 * time.Second

// newTokenizer makes the tokenizer of a new model, and converts the run's text to tokens.
func (r *runner) newTokenizer(ctx context.Context) (tokenizer.Tokenizer, error) {
	if r.o.Tokenizer.Kind != tokenizer.KindWords {
		return tokenizer.Bytes{}, nil
	}
	words, err := r.vocabulary(ctx)
	if err != nil {
		return nil, err
	}
	return words, r.encode(ctx, words)
}

// vocabulary reads the vocabulary file, or makes a vocabulary from the pretraining text. A made
// vocabulary lacks words that occur only in held-out domains.
func (r *runner) vocabulary(ctx context.Context) (*tokenizer.Words, error) {
	o := r.o.Tokenizer
	if o.Vocabulary == "" {
		counts, err := r.seen.Count(r.reading(ctx, "counting words", r.seen))
		if err != nil {
			return nil, err
		}
		words, _, err := counts.Vocabulary(o.VocabularyOptions)
		return words, err
	}
	f, err := reload.Open(o.Vocabulary)
	if err != nil {
		return nil, fmt.Errorf("train: vocabulary %s: %w", o.Vocabulary, cause(err))
	}
	defer f.Close()
	words, err := tokenizer.ReadVocabulary(f)
	if err != nil {
		return nil, fmt.Errorf("train: file %s: %w", o.Vocabulary, err)
	}
	return words, nil
}

// encode converts all text to tokens and reports how much text there is. If a token is a byte,
// encode does nothing.
func (r *runner) encode(ctx context.Context, tok tokenizer.Tokenizer) (err error) {
	words, ok := tok.(*tokenizer.Words)
	if !ok {
		return nil
	}
	r.seen = nil // lets the garbage collector free text that is already converted to tokens
	told := r.reading(ctx, "tokenizing text", r.text)
	if err := r.text.Encode(words, told); err != nil {
		return err
	}
	if r.seen, err = r.text.Without(r.o.HoldOut); err != nil {
		return err
	}
	if r.valid != nil {
		told := r.reading(ctx, "tokenizing validation text", r.valid.text)
		if err := r.valid.text.Encode(words, told); err != nil {
			return err
		}
	}
	return r.note("vocabulary: %s symbols; the text is %s",
		humanize.Comma(int64(words.Vocab())), countOf(r.text, words).of())
}

// reading returns a function that reports the progress of reading a text, at most once in
// textInterval. If ctx has ended, the function returns ctx.Err().
func (r *runner) reading(
	ctx context.Context, what string, c *corpus.Corpus,
) func(bytes int) error {
	total, noted := c.Bytes(), time.Now()
	return func(bytes int) error {
		if err := ctx.Err(); err != nil || time.Since(noted) < textInterval {
			return err
		}
		noted = time.Now()
		return r.note("%s: %s of %s", what, humanize.Bytes(uint64(bytes)),
			humanize.Bytes(uint64(total)))
	}
}
