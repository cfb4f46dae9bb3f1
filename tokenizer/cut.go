package tokenizer

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"
)

// This file cuts words that are not in the vocabulary into parts, as in the texts of WikiText.
// Punctuation, "'s" and "n't" are separate parts. A hyphen, a comma or a point inside a word
// becomes "@-@", "@,@" or "@.@". Words such as "U.S.", "Q." and "and/or" stay whole, because
// WikiText does not cut them.

// partsMost is the maximum number of parts of a word. A word with more parts is not prose, and is
// not cut.
const partsMost = 12

// marks are the punctuation characters that can be separate words.
const marks = ",.;:!?\"'()[]-%$£€“”‘’—–…"

// attachedMost is the maximum share of words with a trailing comma in a vocabulary with separate
// punctuation. A few such words occur by accident.
const attachedMost = 1. / 1000

// cutsWords reports whether the vocabulary comes from text with separate punctuation. Text with
// attached punctuation leads to words like "it,".
func (w *Words) cutsWords() bool {
	_, hyphen := w.ids["@-@"]
	_, comma := w.ids[","]
	if !hyphen || !comma {
		return false
	}
	attached := 0
	for _, symbol := range w.symbols {
		if word, ok := strings.CutSuffix(symbol, ","); ok {
			if r, _ := utf8.DecodeLastRuneInString(word); unicode.IsLetter(r) {
				attached++
			}
		}
	}
	return float64(attached) <= attachedMost*float64(len(w.symbols))
}

// cut returns the size in bytes and the id of the first part of a word. For the rest of the word,
// call cut again with inside = true.
func (w *Words) cut(word []byte, inside bool) (size int, id int32) {
	size, id = w.part(word, inside)
	rest := word[size:]
	for n := 1; len(rest) > 0; n++ {
		if n == partsMost {
			return len(word), w.unknown
		}
		next, _ := w.part(rest, true)
		rest = rest[next:]
	}
	return size, id
}

// part is like cut, but does not limit the number of parts. It returns the longest first part that
// is in the vocabulary. If there is none, it returns the shortest part and the id of Unknown.
func (w *Words) part(word []byte, inside bool) (size int, id int32) {
	if known, ok := w.ids[string(word)]; ok && (!inside || w.joiner(word, 0, inside) < 0) {
		return len(word), known
	}
	at, joined := 0, false
	for n := 0; n < partsMost && at < len(word); n++ {
		at, joined = w.partEnd(word, at, inside || at > 0)
		known, ok := w.ids[string(word[:at])]
		switch {
		case n == 0 && joined:
			return at, w.joiner(word, 0, inside)
		case n == 0 && !ok:
			size, id = at, w.unknown
		case ok && !joined: // joining marks do not end a longer part
			size, id = at, known
		}
	}
	return size, id
}

// partEnd returns the end of the shortest part that begins at index at. joined reports whether the
// part is a joining mark, such as "@-@".
func (w *Words) partEnd(word []byte, at int, inside bool) (end int, joined bool) {
	if n := w.contraction(word, at); n > 0 {
		return at + n, false
	}
	if n := w.mark(word, at, inside); n > 0 {
		return at + n, w.joiner(word, at, inside) >= 0
	}
	for end = at; end < len(word); {
		_, n := utf8.DecodeRune(word[end:])
		if end += n; end < len(word) && (w.contraction(word, end) > 0 ||
			w.mark(word, end, true) > 0) {
			break
		}
	}
	return end, false
}

// mark returns the size in bytes of the punctuation mark, or run of equal marks, at index at. It
// returns 0 if the mark is not a separate part.
func (w *Words) mark(word []byte, at int, inside bool) int {
	r, n := utf8.DecodeRune(word[at:])
	if !strings.ContainsRune(marks, r) {
		return 0
	}
	if w.joiner(word, at, inside) >= 0 {
		return n
	}
	if next := after(word, at+n); isWord(next) {
		switch r {
		case '.', '-':
			return 0
		case '\'', '’':
			if inside {
				return 0
			}
		}
	} else if r == '.' && next != '.' && abbreviates(word[:at]) {
		return 0
	}
	run := n
	for bytes.HasPrefix(word[at+run:], word[at:at+n]) {
		run += n
	}
	for _, size := range [...]int{run, n} {
		if _, ok := w.ids[string(word[at:at+size])]; ok {
			return size
		}
	}
	return 0
}

// joiner returns the id of the joining mark ("@-@", "@,@" or "@.@") at index at of a word, or -1 if
// there is none.
func (w *Words) joiner(word []byte, at int, inside bool) int32 {
	if !inside || at+1 >= len(word) {
		return -1
	}
	next, symbol := after(word, at+1), ""
	digits := unicode.IsDigit(next) && (at == 0 || unicode.IsDigit(previous(word, at)))
	switch b := word[at]; {
	case b == '-' && isWord(next) && (at == 0 || isWord(previous(word, at))):
		symbol = "@-@"
	case b == ',' && digits:
		symbol = "@,@"
	case b == '.' && digits:
		symbol = "@.@"
	}
	if id, ok := w.ids[symbol]; ok {
		return id
	}
	return -1
}

// contractions are word endings that are separate words in WikiText.
var contractions = [...]string{"n't", "'t", "'s", "'re", "'ll", "'ve", "'d", "'m"}

// contraction returns the size of the contraction that begins at index at and ends the word, or 0.
// The contraction must be in the vocabulary or be the whole word.
func (w *Words) contraction(word []byte, at int) int {
	if b := word[at]; b != 'n' && b != '\'' || at > 0 && !isWord(previous(word, at)) {
		return 0
	}
	for _, c := range contractions {
		if !bytes.HasPrefix(word[at:], []byte(c)) || isWord(after(word, at+len(c))) {
			continue
		}
		if _, ok := w.ids[c]; ok || at == 0 && len(word) == len(c) {
			return len(c)
		}
	}
	return 0
}

// abbreviates reports whether a point after word belongs to the word, as in "Q." and "e.g.".
func abbreviates(word []byte) bool {
	r, n := utf8.DecodeLastRune(word)
	rest := word[:len(word)-n]
	return unicode.IsUpper(r) && (len(rest) == 0 || !isWord(previous(rest, len(rest)))) ||
		isWord(r) && bytes.HasSuffix(rest, []byte("."))
}

// after returns the character that begins at index at, and previous the character that ends there.
// Without such a character, both return utf8.RuneError.
func after(word []byte, at int) rune {
	r, _ := utf8.DecodeRune(word[at:])
	return r
}

func previous(word []byte, at int) rune {
	r, _ := utf8.DecodeLastRune(word[:at])
	return r
}

func isWord(r rune) bool {
	return r != utf8.RuneError && (unicode.In(r, unicode.L, unicode.M, unicode.N) || r == '_')
}
