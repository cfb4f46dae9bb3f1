package tokenizer

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Symbols of a vocabulary that are no words: the end of a line, and a word that the vocabulary does
// not have. The reference implementation writes the latter in capitals in some vocabularies.
const (
	LineEnd      = "<eos>"
	Unknown      = "<unk>"
	UnknownUpper = "<UNK>"
)

// Limits of a vocabulary.
const (
	MaxVocab       = 1 << 24   // symbols; as many as a network may have
	MaxSymbolBytes = 256 << 20 // of all symbols together, each with a line feed
)

// ErrVocabulary is wrapped by errors about a vocabulary: of text that is none, or too large.
var ErrVocabulary = errors.New("tokenizer: vocabulary")

// Words is the word-level tokenizer of a vocabulary, as the reference implementation prepares
// WikiText-103. A text is split into lines at line feeds and into words at white space; a word is a
// token, Unknown if the vocabulary does not have it, and the end of a line is the token LineEnd, of
// an empty line, too. Case is kept. The end of a text ends its last line.
//
// The white space before a word, or before the end of a line, belongs to that token, so that every
// byte of a text belongs to one token. The first token of a line has none in a text as Spell writes
// it, every other word has one space.
//
// A word is known to be complete when white space follows it. What has come until then is pending.
// A word that reads as LineEnd does is no line end, but unknown.
//
// A vocabulary that has "@-@" and ",", but no words with a comma at their end, is of a text whose
// punctuation stands apart, as WikiText's does. A word that such a vocabulary does not have is cut
// as that text is, into partsMost parts at most, each of which is a token: "Really?" is "Really"
// and "?", "well-known" is "well", "@-@" and "known". A word that it has is not cut.
//
// Words is immutable; many may use it at the same time.
type Words struct {
	symbols []string
	ids     map[string]int32 // of words, and of Unknown, which a prepared text may contain
	lineEnd int32
	unknown int32
	longest int // symbol, in bytes
	cuts    bool
}

// NewWords returns the tokenizer of these symbols, whose ids are their places. One of them is
// LineEnd, one Unknown (or UnknownUpper); the others are words of at most MaxWordBytes bytes and
// without white space, each given once, and of MaxSymbolBytes together. An adaptive softmax expects
// frequent words first.
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
			return nil, fmt.Errorf("%w: symbol %d: found %q, which is symbol %d, too",
				ErrVocabulary, i,
				symbol, first)
		}
		if size += len(symbol) + 1; size > MaxSymbolBytes {
			return nil,
				fmt.Errorf("%w: symbol %d: found more than %d bytes, a line feed behind each "+
					"symbol among them", ErrVocabulary, i, MaxSymbolBytes)
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
			return nil, fmt.Errorf("%w: found neither %s nor %s, expected one for unknown words",
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

// Start returns LineEnd's id: a text begins where a line begins.
func (w *Words) Start() int32 { return w.lineEnd }

// Unknown returns the id of the words that the vocabulary does not have.
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

// Next takes text behind what is pending and adds the tokens that end in it, at most room of them,
// to t. It returns the text behind the byte that completed the last token there was room for; else
// it takes all.
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

// End adds the tokens that the end of the text completes: the word that is pending, and the end of
// the last line. There are none if the text ends with a line feed. Then nothing is pending.
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

// addPart adds the token of the next part of a word that has ended.
func (w *Words) addPart(t *Tokens, p *Pending) {
	size, id := w.cut(p.Word, true)
	n := int64(chars(p.Word[:size]))
	t.add(id, int64(size), n)
	p.dropPart(size, n)
}

// Spell appends the text of a token that stands behind another: a line feed, or a word, with a
// space before it unless it is the first of a line. An unknown word is spelt as its symbol. Next
// makes the same tokens of what Spell writes. Spell panics at an id outside the vocabulary.
func (w *Words) Spell(dst []byte, after, id int32) []byte {
	if id == w.lineEnd {
		return append(dst, '\n')
	}
	if after != w.lineEnd {
		dst = append(dst, ' ')
	}
	return append(dst, w.symbols[id]...)
}

// SpellMax returns the length of the longest symbol, and one for the space before it.
func (w *Words) SpellMax() int { return w.longest + 1 }

// PendingMax returns the most bytes that are kept of a word.
func (w *Words) PendingMax() int { return heldMost }

// DueMax returns 1, for the end of a line, and the parts of a word but the first.
func (w *Words) DueMax() int {
	if w.cuts {
		return partsMost
	}
	return 1
}

// Symbols returns the symbols in the order of their ids, each with a line feed behind it: the form
// that ReadSymbols reads.
func (w *Words) Symbols() []byte {
	var all []byte
	for _, symbol := range w.symbols {
		all = append(append(all, symbol...), '\n')
	}
	return all
}

// ReadSymbols returns the tokenizer that Symbols has written. Anything else gives an
// error that wraps ErrVocabulary and names the symbol.
func ReadSymbols(data []byte) (*Words, error) {
	if len(data) > MaxSymbolBytes {
		return nil, fmt.Errorf("%w: found %d bytes, expected at most %d", ErrVocabulary, len(data),
			MaxSymbolBytes)
	}
	if len(data) > 0 && data[len(data)-1] != '\n' {
		return nil,
			fmt.Errorf("%w: found no line feed at the end of %d bytes, expected one behind each "+
				"symbol",
				ErrVocabulary, len(data))
	}
	if count := bytes.Count(data, []byte{'\n'}); count > MaxVocab {
		return nil, fmt.Errorf("%w: found %d symbols, expected at most %d", ErrVocabulary, count,
			MaxVocab)
	}
	return NewWords(strings.Split(strings.TrimSuffix(string(data), "\n"), "\n"))
}
