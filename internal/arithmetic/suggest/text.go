package suggest

import (
	"unicode"
	"unicode/utf8"
)

// Unit says where a candidate can end.
type Unit string

// These are the units. A word consists of letters, digits, apostrophes and underscores.
const (
	// Word means a word, or the rest of a begun word, after at most one other character.
	Word Unit = "word"
	// WordPlus means a word, or the rest of a begun word, after at most ten other characters.
	WordPlus Unit = "word+"
	Line     Unit = "line" // a text that ends anywhere within the current line
	Free     Unit = "free" // a text that ends anywhere
	Auto     Unit = "auto" // WordPlus or Free, chosen by UnitOf
)

func (u Unit) before() uint8 {
	if u == Word {
		return 1
	}
	return 10
}

func (u Unit) ofWords() bool { return u == Word || u == WordPlus }

// OfWord reports whether a character can be part of a word.
func OfWord(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsDigit(r) || r == '\'' || r == '_'
}

type shape struct {
	bytes, chars uint8
	others       uint8
	word         bool
	part         uint8 // number of bytes of an incomplete last character
	partial      [utf8.UTFMax]byte
}

// extend returns the shape of the text with one more byte. The result ok is false if that text is
// invalid UTF-8 or cannot begin a candidate.
func (s shape) extend(b byte, u Unit) (_ shape, ok bool) {
	s.bytes++
	s.partial[s.part] = b
	s.part++
	if !utf8.FullRune(s.partial[:s.part]) {
		return s, true
	}
	r, size := utf8.DecodeRune(s.partial[:s.part])
	if r == utf8.RuneError && size == 1 {
		return s, false
	}
	s.part = 0
	s.chars++
	switch {
	case u == Line && r == '\n':
		return s, false
	case !u.ofWords():
	case OfWord(r):
		s.word = true
	case s.word:
		return s, false
	default:
		s.others++
		return s, s.others <= u.before()
	}
	return s, true
}

// Whole reports whether a text ends with a complete character.
func Whole(text []byte) bool {
	for i := len(text) - 1; i >= max(0, len(text)-utf8.UTFMax); i-- {
		if utf8.RuneStart(text[i]) {
			return utf8.FullRune(text[i:])
		}
	}
	return true
}

// separator reports whether a byte ends a word. Byte 0xe2 counts as a separator, because most
// punctuation beyond ASCII begins with this byte, for example “, ” and —.
func separator(b byte) bool {
	return b < utf8.RuneSelf && !OfWord(rune(b)) || b == 0xe2
}
