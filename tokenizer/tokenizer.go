// Package tokenizer turns text into ids and back, and keeps the account of
// bytes, characters and tokens that bits per character are computed from.
package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Tokenizer turns the bytes of a text into tokens as they come, and tokens into text. What it makes
// of a text does not depend on the pieces in which the text came. Bytes and *Words are tokenizers.
type Tokenizer interface {
	// Vocab returns the number of ids; they are 0 to Vocab-1.
	Vocab() int
	// Start returns the token after which the first token of a text is predicted.
	Start() int32
	// Next takes text behind what is pending and adds the tokens that end in it, at most room of
	// them, to t. It returns the text behind the byte that completed the last token there was room
	// for; else it takes all. The text before that is in t, in p, or was in p before.
	Next(t *Tokens, p *Pending, text []byte, room int) (rest []byte)
	// End adds the tokens that the end of a text completes. Nothing is pending after it.
	End(t *Tokens, p *Pending)
	// Unknown returns the id that stands for all words that the vocabulary does not have, -1 if
	// there are none.
	Unknown() int32
	// Spell appends the text of a token that stands behind another.
	Spell(dst []byte, after, id int32) []byte
	// SpellMax returns the length of the longest text that Spell appends, in bytes.
	SpellMax() int
	// PendingMax returns the most bytes that Pending.Word has.
	PendingMax() int
	// DueMax returns the most tokens that may be due, see Pending.Due.
	DueMax() int
	// Chars returns the number of characters of UTF-8 that begin in a piece of text: bytes that
	// continue a character do not count, so that the sum does not depend on where a text was cut.
	Chars(text []byte) int
	// Describe returns the JSON description that Parse reads.
	Describe() string
	// Symbols returns the vocabulary, which Parse reads, or nil if the kind of the tokenizer says
	// it all.
	Symbols() []byte
}

var (
	_ Tokenizer = Bytes{}
	_ Tokenizer = (*Words)(nil)
)

// Kinds of tokenizers, as descriptions name them.
const (
	KindBytes = "bytes"
	KindWords = "words"
)

// ErrDescription says that the description of a tokenizer is malformed or of an unknown kind.
var ErrDescription = errors.New("no description of a known tokenizer")

// description is the JSON form of a tokenizer in the metadata of a weights file.
type description struct {
	Kind string `json:"kind"`
}

// Describe returns {"kind":"bytes"}.
func (Bytes) Describe() string { return `{"kind":"` + KindBytes + `"}` }

// Describe returns {"kind":"words"}.
func (*Words) Describe() string { return `{"kind":"` + KindWords + `"}` }

// Parse returns the tokenizer that Describe and Symbols have written. Anything else gives an error
// that wraps ErrDescription or ErrVocabulary and says what was expected.
func Parse(text string, symbols []byte) (Tokenizer, error) {
	var d description
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&d); err != nil {
		return nil, fmt.Errorf("tokenizer: description: %w: %w", err, ErrDescription)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil,
			fmt.Errorf("tokenizer: description: found more after byte %d, expected one JSON "+
				"object: %w",
				decoder.InputOffset(), ErrDescription)
	}
	switch d.Kind {
	case KindBytes:
		if symbols != nil {
			return nil, fmt.Errorf("%w: found one beside the tokenizer of bytes, expected none",
				ErrVocabulary)
		}
		return Bytes{}, nil
	case KindWords:
		if symbols == nil {
			return nil, fmt.Errorf("%w: found none beside the tokenizer of words", ErrVocabulary)
		}
		w, err := ReadSymbols(symbols)
		if err != nil {
			return nil, err // not in the interface: a nil *Words would not be nil there
		}
		return w, nil
	}
	return nil, fmt.Errorf("tokenizer: kind: found %q, expected %q or %q: %w", d.Kind, KindBytes,
		KindWords, ErrDescription)
}
