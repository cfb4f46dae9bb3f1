package tokenizer

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Symbols of a vocabulary that are not words: the end of a line, and an unknown word. Some
// vocabularies of the reference implementation have the latter in capitals.
const (
	LineEnd      = "<eos>"
	Unknown      = "<unk>"
	UnknownUpper = "<UNK>"
)

// Limits of a vocabulary.
const (
	MaxVocab       = 1 << 24   // symbols; also the maximum of a network
	MaxSymbolBytes = 256 << 20 // bytes of all symbols together, each with a line feed
)

// ErrVocabulary is wrapped by errors about an invalid or too large vocabulary.
var ErrVocabulary = errors.New("tokenizer: vocabulary")

// Words is the word-level tokenizer of a vocabulary, for texts prepared as in the reference
// implementation's WikiText-103. It splits a text into lines at line feeds and into words at
// white space. A word is a token, or Unknown if it is not in the vocabulary. The end of a line,
// even an empty one, is the token LineEnd. Case matters. The end of a text ends its last line.
//
// White space belongs to the token after it, a word or the end of a line. So every byte of a text
// belongs to one token. Spell writes one space before each word, except for the first word of a
// line.
//
// A word is complete when white space follows. Until then it is pending. A word that is spelled
// like the symbol LineEnd is an unknown word.
//
// If a vocabulary has "@-@" and ",", but hardly any words that end with a comma, its text has
// separate punctuation, like WikiText. Unknown words are then cut in the same way, into at most
// partsMost parts, each of which is a token. "Really?" is "Really" and "?", "well-known" is
// "well", "@-@" and "known". Known words are not cut.
//
// Words is immutable and safe for concurrent use.
type Words struct {
	symbols []string
	ids     map[string]int32 // ids of words, and of Unknown, which prepared texts contain
	lineEnd int32
	unknown int32
	longest int // longest symbol, in bytes
	cuts    bool
}

// NewWords returns the tokenizer of these symbols; a symbol's index is its id. One symbol must be
// LineEnd, and one Unknown (or UnknownUpper). The others must be distinct words of at most
// MaxWordBytes bytes without white space. All together have at most MaxSymbolBytes. An adaptive
// softmax expects frequent words first.
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

// Vocab returns the number of ids; they are 0 to Vocab-1.
func (w *Words) Vocab() int { return len(w.symbols) }

// Start returns LineEnd's id: a text begins at the beginning of a line.
func (w *Words) Start() int32 { return w.lineEnd }

// Unknown returns the id of words outside the vocabulary.
func (w *Words) Unknown() int32 { return w.unknown }

// ID returns the id of a word without white space.
func (w *Words) ID(word []byte) int32 {
	if id, ok := w.ids[string(word)]; ok {
		return id
	}
	return w.unknown
}

// Symbol returns the symbol of an id.
func (w *Words) Symbol(id int32) string { return w.symbols[id] }

// Chars returns the number of characters of UTF-8 that begin in the text.
func (w *Words) Chars(text []byte) int { return chars(text) }

// Next takes text after the pending text and adds the tokens that end in it, at most room of them,
// to t. If room ends first, Next returns the text after the byte that completed the last added
// token; otherwise it returns no text.
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

// End adds the tokens that the end of the text completes: the pending word, and the end of the
// last line. If the text ends with a line feed, there are none. Nothing is pending afterwards.
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

// add adds the token of a piece, or of the first part of its word. It returns the other parts.
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

// addPart adds the token of the next part of an ended word.
func (w *Words) addPart(t *Tokens, p *Pending) {
	size, id := w.cut(p.Word, true)
	n := int64(chars(p.Word[:size]))
	t.add(id, int64(size), n)
	p.dropPart(size, n)
}

// Spell appends the text of token id. Parameter after is the token before it. LineEnd is a line
// feed. A word has a space before it, unless it is the first word of a line. An unknown word is
// spelled as its symbol. Next makes the same tokens from the text of Spell. Spell panics at an id
// outside the vocabulary.
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

// PendingMax returns the maximum number of bytes kept of a word.
func (w *Words) PendingMax() int { return heldMost }

// DueMax returns the maximum number of due tokens: one for the end of a line, and all parts of a
// word except the first.
func (w *Words) DueMax() int {
	if w.cuts {
		return partsMost
	}
	return 1
}

// Symbols returns the symbols in the order of their ids, each followed by a line feed, as
// ReadSymbols reads them.
func (w *Words) Symbols() []byte {
	var all []byte
	for _, symbol := range w.symbols {
		all = append(append(all, symbol...), '\n')
	}
	return all
}

// ReadSymbols returns the tokenizer whose method Symbols returned data. Invalid data gives an error
// that wraps ErrVocabulary and names the symbol.
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
