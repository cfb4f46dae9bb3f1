package lines

import "unicode/utf8"

type key uint64

// The seeds make keys of different kinds differ.
const (
	seedSpaced key = iota + 1
	seedDigits
	seedWord
	seedPlace
	seedFrame
	seedToken
	seedRun
	seedGram
)

// with returns the hash (FNV-1a) that results from k and the bytes of b.
func (k key) with(b []byte) key {
	for _, c := range b {
		k = k.plus(c)
	}
	return k
}

func (k key) plus(c byte) key { return (k ^ key(c)) * 0x100000001b3 }

// spread mixes the bits of a key, so that any of these bits can be an index into a table.
func (k key) spread() key {
	k ^= k >> 32
	k *= 0x9e3779b97f4a7c15
	return k ^ k>>29
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// inName reports whether a byte is part of a word: a letter, a digit, _ or a byte of a non-ASCII
// character.
func inName(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || isDigit(c) || c == '_' ||
		c >= utf8.RuneSelf
}

// A word that often changes between letters and digits is an identifier. All identifiers count as
// the same word.
const (
	identifierBytes   = 6
	identifierChanges = 3
)

// identifier reports whether a word is an identifier. An identifier has at least identifierBytes
// bytes and a digit. It changes at least identifierChanges times between lower case, upper case,
// digits and _.
func identifier(word []byte) bool {
	if len(word) < identifierBytes {
		return false
	}
	changes, digit, last := 0, false, byte(0)
	for _, c := range word {
		kind := byte('a')
		switch {
		case isDigit(c):
			kind, digit = '0', true
		case 'A' <= c && c <= 'Z':
			kind = 'A'
		case c == '_':
			kind = '_'
		}
		if last != 0 && kind != last {
			changes++
		}
		last = kind
	}
	return digit && changes >= identifierChanges
}

// masked returns the key of a word, in which each run of digits counts as one 0. All identifiers
// have the same key.
func masked(word []byte) key {
	k := seedWord
	if identifier(word) {
		return k.plus('R').plus('!')
	}
	zero := false
	for _, c := range word {
		if isDigit(c) {
			if zero {
				continue
			}
			c = '0'
		}
		zero = c == '0'
		k = k.plus(c)
	}
	return k
}
