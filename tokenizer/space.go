package tokenizer

// Classes of bytes in a text of words.
const (
	inWord  = iota
	inSpace // white space of one byte
	inLineEnd
	inTail // either the last byte of a multi-byte white space character, or part of a word
)

// classes gives the class of every byte. White space is defined as in Python's str.split: Unicode's
// White_Space and the ASCII separators 1C to 1F. The reference implementation prepares its texts
// with str.split.
var classes = [256]uint8{
	'\n': inLineEnd,
	'\t': inSpace, '\v': inSpace, '\f': inSpace, '\r': inSpace, ' ': inSpace,
	0x1c: inSpace, 0x1d: inSpace, 0x1e: inSpace, 0x1f: inSpace,
	0x80: inTail, 0x81: inTail, 0x82: inTail, 0x83: inTail, 0x84: inTail, 0x85: inTail,
	0x86: inTail, 0x87: inTail, 0x88: inTail, 0x89: inTail, 0x8a: inTail,
	0x9f: inTail, 0xa0: inTail, 0xa8: inTail, 0xa9: inTail, 0xaf: inTail,
}

// spaceMost is the size in bytes of the largest white space character in UTF-8.
const spaceMost = 3

// wideSpace returns the size of the multi-byte white space character that ends with the bytes two,
// one, last. It returns 0 if there is none. Earlier bytes do not matter, because the first byte of
// a UTF-8 character never occurs inside a character.
func wideSpace(two, one, last byte) int {
	switch {
	case one == 0xc2 && (last == 0x85 || last == 0xa0): // U+0085, U+00A0
		return 2
	case two == 0xe1 && one == 0x9a && last == 0x80, // U+1680
		two == 0xe2 && one == 0x81 && last == 0x9f, // U+205F
		two == 0xe3 && one == 0x80 && last == 0x80: // U+3000
		return 3
	case two == 0xe2 && one == 0x80: // U+2000 to U+200A, U+2028, U+2029, U+202F
		if last <= 0x8a || last == 0xa8 || last == 0xa9 || last == 0xaf {
			return 3
		}
	}
	return 0
}

// indexSpace returns the index of the last byte of the first white space character in text, or -1
// if there is none.
func indexSpace(text []byte) int {
	for i, b := range text {
		switch classes[b] {
		case inSpace, inLineEnd:
			return i
		case inTail:
			two, one := before(text, i)
			if wideSpace(two, one, b) > 0 {
				return i
			}
		}
	}
	return -1
}

func before(text []byte, i int) (two, one byte) {
	if i > 0 {
		one = text[i-1]
	}
	if i > 1 {
		two = text[i-2]
	}
	return two, one
}
