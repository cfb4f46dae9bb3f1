package tokenizer

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Symbols of a vocabulary that are not words. Some vocabularies of the reference implementation
// spell Unknown in capitals.
const (
	LineEnd      = "<eos>"
	Unknown      = "<unk>"
	UnknownUpper = "<UNK>"
)

// Limits of a vocabulary.
const (
	MaxVocab       = 1 << 24   // number of symbols; also the limit of a model's vocabulary
	MaxSymbolBytes = 256 << 20 // size of all symbols in bytes, each with a line feed
)

// ErrVocabulary is wrapped by errors about an invalid or too large vocabulary.
var ErrVocabulary = errors.New("tokenizer: vocabulary")

// Words is a word-level tokenizer for texts prepared like the reference implementation's
// WikiText-103. It splits a text into lines at line feeds, and lines into words at white space. A
// word that is not in the vocabulary is the token Unknown. The end of each line, even of an empty
// line, is the token LineEnd. Case matters. The end of a text also ends its last line.
//
// White space belongs to the token after it, so every byte of a text belongs to one token. Spell
// writes one space before each word, except before the first word of a line.
//
// A word is complete when white space follows; until then it is pending. A word that is spelled
// like LineEnd is an unknown word.
//
// Some vocabularies come from texts with separate punctuation, like WikiText. They contain "@-@"
// and ",", but hardly any words that end with a comma. With such a vocabulary, Words cuts unknown
// words into parts, and each part is a token. A word of more than 12 parts is not cut. Words cuts
// "Really?" into "Really" and "?", and "well-known" into "well", "@-@" and "known". Known words are
// not cut.
//
// Words is immutable and safe for concurrent use.
type Words struct {
	symbols []string
	ids     map[string]int32 // ids of all words and of Unknown, but not of LineEnd
	lineEnd int32
	unknown int32
	longest int // length of the longest symbol, in bytes
	cuts    bool
}

// NewWords returns a tokenizer with the given symbols. The index of a symbol is its id. One symbol
// must be LineEnd, and one must be Unknown or UnknownUpper. The others must be distinct words
// without white space, of at most MaxWordBytes bytes. The symbols together, with a line feed after
// each, have at most MaxSymbolBytes bytes. A model with an adaptive softmax expects frequent words
// first.
func NewWords(symbols []string) (*Words, error) {
	if len(symbols) > MaxVocab {
		return nil, fmt.Errorf("%w: found %d symbols, expected at most %d", ErrVocabulary,
			len(symbols),
			MaxVocab)
	}
	w := &Words{symbols: slices.Clone(symbols), ids: make(map[string]int32, len(symbols))}
	size := 0
	for i, symbol := range symbols {
		if err := checkSymbol(symbol); err != nil {
			return nil, fmt.Errorf("%w: symbol %d: %w", ErrVocabulary, i, err)
		}
		if first, again := w.ids[symbol]; again {
			return nil, fmt.Errorf("%w: symbol %d: found %q, which is also symbol %d",
				ErrVocabulary, i,
				symbol, first)
		}
		if size += len(symbol) + 1; size > MaxSymbolBytes {
			return nil,
				fmt.Errorf("%w: symbol %d: found more than %d bytes in total, including a line "+
					"feed after each symbol", ErrVocabulary, i, MaxSymbolBytes)
		}
		w.ids[symbol] = int32(i)
		w.longest = max(w.longest, len(symbol))
	}
	var ok bool
	if w.lineEnd, ok = w.ids[LineEnd]; !ok {
		return nil, fmt.Errorf("%w: found no symbol %s, expected it for the end of a line",
			ErrVocabulary,
			LineEnd)
	}
	if w.unknown, ok = w.ids[Unknown]; !ok {
		if w.unknown, ok = w.ids[UnknownUpper]; !ok {
			return nil, fmt.Errorf("%w: found neither %s nor %s, expected one of them for "+
				"unknown words",
				ErrVocabulary, Unknown, UnknownUpper)
		}
	}
	delete(w.ids, LineEnd)
	w.cuts = w.cutsWords()
	return w, nil
}

func checkSymbol(symbol string) error {
	switch {
	case symbol == "":
		return errors.New("found nothing, expected a word")
	case len(symbol) > MaxWordBytes:
		return fmt.Errorf("found %d bytes, expected at most %d", len(symbol), MaxWordBytes)
	case indexSpace([]byte(symbol)) >= 0:
		return fmt.Errorf("found white space in %q, expected one word", symbol)
	}
	return nil
}

// Vocab returns the number of ids. The ids are 0 to Vocab-1.
func (w *Words) Vocab() int { return len(w.symbols) }

// Start returns the id of LineEnd, because a text begins at the beginning of a line.
func (w *Words) Start() int32 { return w.lineEnd }

// Unknown returns the id of words outside the vocabulary.
func (w *Words) Unknown() int32 { return w.unknown }

// ID returns the id of a word, or the id of Unknown if the word is not in the vocabulary. The word
// must not contain white space.
func (w *Words) ID(word []byte) int32 {
	if id, ok := w.ids[string(word)]; ok {
		return id
	}
	return w.unknown
}

// Symbol returns the symbol of an id.
func (w *Words) Symbol(id int32) string { return w.symbols[id] }

// Chars returns the number of UTF-8 characters that begin in text.
func (w *Words) Chars(text []byte) int { return chars(text) }

// Next reads text, which follows the pending text p, and adds complete tokens to t. After adding
// room tokens, it stops and returns the unread rest of text. Otherwise it reads all of text.
func (w *Words) Next(t *Tokens, p *Pending, text []byte, room int) (rest []byte) {
	for ; room > 0; room-- {
		if p.Ended > 0 {
			w.addPart(t, p)
			continue
		}
		var found piece
		found, text = p.next(text)
		if found.kind == noPiece {
			return nil
		}
		if rest := w.add(t, found); len(rest) > 0 {
			p.holdParts(rest)
		}
	}
	return text
}

// End adds the tokens that are pending at the end of a text: the last word and the end of the last
// line. Nothing is pending afterwards.
func (w *Words) End(t *Tokens, p *Pending) {
	for p.Ended > 0 {
		w.addPart(t, p)
	}
	word, line := p.last()
	for rest := w.add(t, word); len(rest) > 0; {
		size, id := w.cut(rest, true)
		t.add(id, int64(size), int64(chars(rest[:size])))
		rest = rest[size:]
	}
	w.add(t, line)
}

// add adds the token of a piece. If it cuts the word, it adds only the first part and returns the
// other parts.
func (w *Words) add(t *Tokens, found piece) (rest []byte) {
	switch found.kind {
	case linePiece:
		t.add(w.lineEnd, found.size, found.chars)
	case wordPiece:
		id := w.unknown
		if found.word != nil {
			id = w.ID(found.word)
		}
		if id == w.unknown && w.cuts && found.word != nil {
			var size int
			size, id = w.cut(found.word, false)
			rest = found.word[size:]
		}
		t.add(id, found.size-int64(len(rest)), found.chars-int64(chars(rest)))
	}
	return rest
}

func (w *Words) addPart(t *Tokens, p *Pending) {
	size, id := w.cut(p.Word, true)
	n := int64(chars(p.Word[:size]))
	t.add(id, int64(size), n)
	p.dropPart(size, n)
}

// Spell appends the text of token id to dst. Parameter `after` is the token before id. The text of
// LineEnd is a line feed. A word has a space before it, unless after is LineEnd. The text of
// Unknown is its symbol. Next converts the text back into the same tokens. Spell panics if id is
// not in the vocabulary.
func (w *Words) Spell(dst []byte, after, id int32) []byte {
	if id == w.lineEnd {
		return append(dst, '\n')
	}
	if after != w.lineEnd {
		dst = append(dst, ' ')
	}
	return append(dst, w.symbols[id]...)
}

// SpellMax returns the length of the longest symbol plus one space.
func (w *Words) SpellMax() int { return w.longest + 1 }

// PendingMax returns the maximum size of Pending.Word in bytes.
func (w *Words) PendingMax() int { return heldMost }

// DueMax returns the maximum number of complete tokens in a Pending: the end of a line, and all
// parts of a word except the first.
func (w *Words) DueMax() int {
	if w.cuts {
		return partsMost
	}
	return 1
}

// Symbols returns the symbols in the order of their ids, each followed by a line feed. ReadSymbols
// reads this format.
func (w *Words) Symbols() []byte {
	var all []byte
	for _, symbol := range w.symbols {
		all = append(append(all, symbol...), '\n')
	}
	return all
}

// ReadSymbols returns the tokenizer with the symbols in data, in the format of Words.Symbols. For
// invalid data it returns an error that wraps ErrVocabulary.
func ReadSymbols(data []byte) (*Words, error) {
	if len(data) > MaxSymbolBytes {
		return nil, fmt.Errorf("%w: found %d bytes, expected at most %d", ErrVocabulary, len(data),
			MaxSymbolBytes)
	}
	if len(data) > 0 && data[len(data)-1] != '\n' {
		return nil,
			fmt.Errorf("%w: found no line feed at the end of %d bytes, expected a line feed "+
				"after each symbol",
				ErrVocabulary, len(data))
	}
	if count := bytes.Count(data, []byte{'\n'}); count > MaxVocab {
		return nil, fmt.Errorf("%w: found %d symbols, expected at most %d", ErrVocabulary, count,
			MaxVocab)
	}
	return NewWords(strings.Split(strings.TrimSuffix(string(data), "\n"), "\n"))
}
