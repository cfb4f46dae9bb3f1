package lines

import (
	"math"
	"slices"

	"github.com/lmserve/lmserve/internal/arithmetic/incidents"
)

// rarity rates a line by its words, as spaces separate them: the part B of a rating, see Rating.
// The result is the sum over the line's different words of -lg((lines with the word + 1/2) / (lines
// + 1)). All words with a digit count as one.
type rarity struct {
	cells [rarityCells]counted
	lines int64
}

const (
	rarityCells = 1 << 10
	// after at most this number of misses, another word gets the cell
	wordWear = 1 << 12
)

// counted is the number of lines that contain a word, which is identified by its hash.
type counted struct {
	Tag   uint16
	Seen  uint16 // number of misses until another word gets the cell
	Lines uint32
}

// spacedWord is a word of a line, as spaces separate words.
type spacedWord struct {
	key
	from, to int
	lines    uint32 // number of earlier lines with the word
}

// take rates a line by its different words, in bits, and learns the words. rarest is the word
// without a digit that occurs in the fewest earlier lines. If the line has no such word, rarest.to
// is 0.
func (r *rarity) take(of *scratch) (bits float64, rarest spacedWord) {
	n := float64(r.lines) + 1
	for _, w := range of.words {
		if c := &r.cells[w.key%rarityCells]; c.Seen > 0 && c.Tag == uint16(w.key>>48) {
			w.lines = c.Lines
		}
		of.marks = append(of.marks, incidents.Mark(w.key))
		own := bitsOf((float64(w.lines) + .5) / n)
		if bits += own; own >= rareBits {
			of.rare = append(of.rare, incidents.Mark(w.key))
		}
		if w.key != digitsKey && (rarest.to == 0 || w.lines < rarest.lines) {
			rarest = w
		}
	}
	for _, w := range of.words {
		r.cells[w.key%rarityCells].take(uint16(w.key >> 48))
	}
	r.lines++
	return max(0, bits), rarest
}

// take counts a line that contains the word with the given tag. If the cell belongs to another
// word, that word loses the cell after some misses.
func (c *counted) take(tag uint16) {
	switch {
	case c.Seen > 0 && c.Tag == tag:
	case c.Seen > 1:
		c.Seen--
		return
	default:
		*c = counted{Tag: tag}
	}
	c.Seen = min(c.Seen+1, wordWear)
	c.Lines = min(c.Lines, math.MaxUint32-1) + 1
}

// digitsKey is the key of every word with a digit.
var digitsKey = seedDigits.spread()

// spaced appends the different words of a line to words. Only spaces separate these words.
func spaced(words []spacedWord, line []byte) []spacedWord {
	for i := 0; i < len(line); {
		if line[i] <= ' ' {
			i++
			continue
		}
		k, from := seedSpaced, i
		digit := false
		for ; i < len(line) && line[i] > ' '; i++ {
			digit = digit || isDigit(line[i])
			k = k.plus(line[i])
		}
		if digit {
			k = seedDigits
		}
		k = k.spread()
		if !slices.ContainsFunc(words, func(w spacedWord) bool { return w.key == k }) {
			words = append(words, spacedWord{key: k, from: from, to: i})
		}
	}
	return words
}
