// Package tokenizer converts text into token ids and back. It also counts bytes, characters and
// tokens, from which bits per character are computed.
package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Tokenizer converts a stream of bytes into tokens, and tokens into text. The tokens do not depend
// on how the text was divided into pieces. The implementations are Bytes and *Words.
type Tokenizer interface {
	// Vocab returns the number of ids. The ids are 0 to Vocab-1.
	Vocab() int
	// Start returns the token that the model sees before the first token of a text.
	Start() int32
	// Next reads text, which follows the pending text p, and adds complete tokens to t. After
	// adding room tokens, it stops and returns the unread rest of text. Otherwise it reads all of
	// text and returns an empty rest. Bytes that belong to no token of t stay in p.
	Next(t *Tokens, p *Pending, text []byte, room int) (rest []byte)
	// End adds the tokens that are complete at the end of the text. Nothing is pending afterwards.
	End(t *Tokens, p *Pending)
	// Unknown returns the id of all words outside the vocabulary, or -1 if the tokenizer has no
	// such id.
	Unknown() int32
	// Spell appends the text of token id to dst. Parameter after is the token before id.
	Spell(dst []byte, after, id int32) []byte
	// SpellMax returns the maximum size, in bytes, of a text that Spell appends.
	SpellMax() int
	// PendingMax returns the maximum size of Pending.Word in bytes.
	PendingMax() int
	// DueMax returns the maximum number of complete tokens in a Pending (see Pending.Due).
	DueMax() int
	// Chars returns the number of UTF-8 characters that begin in text. Continuation bytes do not
	// count, so the counts of pieces add up, wherever the text is cut.
	Chars(text []byte) int
	// Describe returns a JSON description of the tokenizer, for Parse.
	Describe() string
	// Symbols returns the vocabulary for Parse, or nil if Parse needs only the description.
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

// Parse returns the tokenizer with the given description and symbols, from Describe and Symbols.
// For invalid input it returns an error that wraps ErrDescription or ErrVocabulary.
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
