package train

import (
	"fmt"
	"os"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/lmserve/lmserve/internal/train/corpus"
	"github.com/lmserve/lmserve/tokenizer"
)

// textInterval is the time between two notes of how far a long text has been read.
const textInterval = 5 * time.Second

// loadTokenizer makes the tokenizer of a new model, and tokens of the text where a token is not a
// byte.
func (r *runner) loadTokenizer() (tokenizer.Tokenizer, error) {
	if !r.o.ofWords() {
		return tokenizer.Bytes{}, nil
	}
	words, err := r.vocabulary()
	if err != nil {
		return nil, err
	}
	if err := r.encode(words); err != nil {
		return nil, err
	}
	tokens, unknown := r.text.Tokens(), r.text.Occurrences(words.Unknown())
	share := 100 * float64(unknown) / float64(tokens)
	err = r.note("vocabulary: %s symbols; the text is %s tokens, %.2f %% of them unknown words",
		humanize.Comma(int64(words.Vocab())), humanize.Comma(int64(tokens)), share)
	return words, err
}

// vocabulary reads the vocabulary, or makes it of the text that is pretrained on: what is held out
// remains new.
func (r *runner) vocabulary() (*tokenizer.Words, error) {
	o := r.o.Tokenizer
	if o.Vocabulary == "" {
		counts, err := r.seen.Count(r.reading("words are counted", r.seen))
		if err != nil {
			return nil, err
		}
		words, _, err := counts.Vocabulary(o.VocabularyOptions)
		return words, err
	}
	f, err := os.Open(o.Vocabulary)
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

// encode makes tokens of all text.
func (r *runner) encode(tok tokenizer.Tokenizer) (err error) {
	r.seen = nil // so that the bytes go as the tokens come
	if err := r.text.Encode(tok, r.reading("text is made tokens", r.text)); err != nil {
		return err
	}
	if r.seen, err = r.text.Without(r.o.HoldOut); err != nil || r.valid == nil {
		return err
	}
	return r.valid.text.Encode(tok, r.reading("validation text is made tokens", r.valid.text))
}

// reading returns a function that notes now and then how far a text has been read.
func (r *runner) reading(what string, c *corpus.Corpus) func(bytes int) error {
	total, noted := c.Bytes(), time.Now()
	return func(bytes int) error {
		if time.Since(noted) < textInterval {
			return nil
		}
		noted = time.Now()
		return r.note("%s: %s of %s", what, humanize.Bytes(uint64(bytes)), humanize.Bytes(uint64(total)))
	}
}
