package changes

import "unicode/utf8"

type form uint8

const (
	plain  form = iota // mostly letters, with few digits
	number             // digits with a numeric value
	address
	random // an identifier, a time, or a number too long to repeat by chance
)

// word is a run of letters, digits and _ in a line, or a number.
type word struct {
	from, to   int
	form       form
	value      float64
	separators uint32 // the last four bytes of the separators before this word
}

// cutter splits a line into words and skips the time stamp.
type cutter struct {
	line  []byte
	stamp stamp
	at    int
}

const (
	randomBytes   = 6 // minimum size of a word that can be random
	randomChanges = 3 // minimum changes between digits and letters in a random word
	digitsMost    = 9
	plainDigits   = 4
)

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isLetter(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || c >= utf8.RuneSelf
}

// next stores the line's next word in w and reports whether there was another word.
func (c *cutter) next(w *word) bool {
	separators := uint32(0)
	for c.at < len(c.line) {
		if c.stamp.to > 0 && c.at == c.stamp.from {
			c.at, separators = c.stamp.to, 0
			continue
		}
		b := c.line[c.at]
		if isLetter(b) || isDigit(b) {
			*w = word{from: c.at, separators: separators}
			text := c.line
			if c.at < c.stamp.from { // in a date that is longer than dateBytes
				text = text[:c.stamp.from]
			}
			w.to, w.form, w.value = classify(text, c.at)
			c.at = w.to
			return true
		}
		separators = separators<<8 | uint32(b)
		c.at++
	}
	return false
}

// classify returns the end of the word that begins at offset from, and the word's form and value.
func classify(line []byte, from int) (to int, is form, value float64) {
	digits, changes := 0, 0
	before := isDigit(line[from])
	for to = from; to < len(line) && (isLetter(line[to]) || isDigit(line[to])); to++ {
		now := isDigit(line[to])
		if now {
			digits++
		}
		if now != before {
			changes++
		}
		before = now
	}
	switch {
	case digits == 0:
		return to, plain, 0
	case changes >= randomChanges && to-from >= randomBytes, digits > digitsMost,
		inTime(line, from, to):
		return to, random, 0
	case isDigit(line[from]):
		return numeric(line, from)
	case digits > plainDigits:
		return to, random, 0
	}
	return to, plain, 0
}

// inTime reports whether a word is part of a time like 7:05.
func inTime(line []byte, from, to int) bool {
	after := from > 1 && isDigit(line[from]) && line[from-1] == ':' && isDigit(line[from-2])
	return after || to+1 < len(line) && line[to] == ':' && isDigit(line[to+1]) && to-from <= 2
}

// numeric returns the end of a number, address or version that begins at offset from, and its
// value. Times with a unit are converted to seconds.
func numeric(line []byte, from int) (to int, is form, value float64) {
	points := 0
	mantissa, scale := uint64(0), 1.
	for to = from; to < len(line); to++ {
		if c := line[to]; isDigit(c) {
			if mantissa < 1e17 {
				mantissa = mantissa*10 + uint64(c-'0')
				if points > 0 {
					scale *= 10
				}
			}
		} else if c == '.' && to+1 < len(line) && isDigit(line[to+1]) {
			points++
		} else {
			break
		}
	}
	switch points {
	case 0, 1:
	case 3:
		return to, address, 0
	default:
		return to, random, 0
	}
	unit := to
	for to < len(line) && (isLetter(line[to]) || isDigit(line[to])) {
		to++
	}
	switch string(line[unit:to]) {
	case "", "s":
	case "ms":
		scale *= 1e3
	case "us", "µs", "μs":
		scale *= 1e6
	case "ns":
		scale *= 1e9
	default:
		return to, random, 0
	}
	return to, number, float64(mantissa) / scale
}

// These seeds make hashes of different kinds differ.
const (
	seedBytes    = 2166136261
	seedTemplate = 2166136261
	seedShape    = 1
	seedFirst    = 7 // replaces the hash of the previous word for a line's first word
	seedPlace    = 99
	seedLevel    = 1000
)

// hashOf returns the hash of a word's bytes (FNV-1a).
func hashOf(word []byte) uint32 {
	h := uint32(seedBytes)
	for _, c := range word {
		h = (h ^ uint32(c)) * 16777619
	}
	return h ^ h>>13
}

func mix(h, v uint32) uint32 {
	h = (h ^ v) * 0x9e3779b1
	return h ^ h>>15
}

// hash returns the hash of a plain word's bytes, or the hash of another word's form. The next word
// uses the hash as its context.
func (w *word) hash(line []byte) uint32 {
	if w.form == plain {
		return hashOf(line[w.from:w.to])
	}
	return 10 + uint32(w.form)
}

// home returns the index, below n, of the cell that a tag selects. It ignores the tag's lowest bit,
// which is always 1.
func home(tag, n uint32) uint32 { return tag >> 1 % n }
