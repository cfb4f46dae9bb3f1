// Package tokenizer converts text into ids and back, and counts the bytes, characters and tokens
// that bits per character are computed from.
package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Tokenizer converts the bytes of a text into tokens as the bytes arrive, and tokens into text. The
// tokens do not depend on how the text was divided into pieces. Bytes and *Words are tokenizers.
type Tokenizer interface {
	// Vocab returns the number of ids; they are 0 to Vocab-1.
	Vocab() int
	// Start returns the token before the first token of a text.
	Start() int32
	// Next takes text after the pending text and adds the tokens that end in it, at most room of
	// them, to t. If room ends first, Next returns the text after the byte that completed the last
	// added token; otherwise it returns no text. The text before that byte is then in t or in p.
	Next(t *Tokens, p *Pending, text []byte, room int) (rest []byte)
	// End adds the tokens that the end of the text completes. Nothing is pending afterwards.
	End(t *Tokens, p *Pending)
	// Unknown returns the id of all words outside the vocabulary, or -1 if there are none.
	Unknown() int32
	// Spell appends the text of token id. Parameter after is the token before it.
	Spell(dst []byte, after, id int32) []byte
	// SpellMax returns the maximum size, in bytes, of a text that Spell appends.
	SpellMax() int
	// PendingMax returns the maximum size of Pending.Word in bytes.
	PendingMax() int
	// DueMax returns the maximum number of due tokens, see Pending.Due.
	DueMax() int
	// Chars returns the number of characters of UTF-8 that begin in a piece of text. Continuation
	// bytes do not count, so the sum does not depend on where a text was cut.
	Chars(text []byte) int
	// Describe returns the JSON description that Parse reads.
	Describe() string
	// Symbols returns the vocabulary for Parse, or nil if the kind of the tokenizer determines
	// it.
	Symbols() []byte
}

var (
	_ Tokenizer = Bytes{}
	_ Tokenizer = (*Words)(nil)
)

// Kinds of tokenizers in descriptions.
const (
	KindBytes = "bytes"
	KindWords = "words"
)

// ErrDescription reports that the description of a tokenizer is malformed or of an unknown kind.
var ErrDescription = errors.New("not the description of a known tokenizer")

// description is the JSON form of a tokenizer in the metadata of a weights file.
type description struct {
	Kind string `json:"kind"`
}

// Describe returns {"kind":"bytes"}.
func (Bytes) Describe() string { return `{"kind":"` + KindBytes + `"}` }

// Describe returns {"kind":"words"}.
func (*Words) Describe() string { return `{"kind":"` + KindWords + `"}` }

// Parse returns the tokenizer of a description and symbols, as written by Describe and Symbols.
// Other input gives an error that wraps ErrDescription or ErrVocabulary and says what was
// expected.
func Parse(text string, symbols []byte) (Tokenizer, error) {
	var d description
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&d); err != nil {
		return nil, fmt.Errorf("tokenizer: description: %w: %w", err, ErrDescription)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil,
			fmt.Errorf("tokenizer: description: found more text after byte %d, expected one JSON "+
				"object: %w",
				decoder.InputOffset(), ErrDescription)
	}
	switch d.Kind {
	case KindBytes:
		if symbols != nil {
			return nil, fmt.Errorf("%w: found a vocabulary for the tokenizer of bytes, "+
				"expected none", ErrVocabulary)
		}
		return Bytes{}, nil
	case KindWords:
		if symbols == nil {
			return nil, fmt.Errorf("%w: found no vocabulary, expected one for the tokenizer of "+
				"words",
				ErrVocabulary)
		}
		w, err := ReadSymbols(symbols)
		if err != nil {
			return nil, err // a nil *Words would be a non-nil Tokenizer
		}
		return w, nil
	}
	return nil, fmt.Errorf("tokenizer: kind: found %q, expected %q or %q: %w", d.Kind, KindBytes,
		KindWords, ErrDescription)
}
