package lines

import (
	"math"
	"slices"

	"github.com/lmserve/lmserve/internal/arithmetic/incidents"
)

// rarity rates a line by its words, which are separated by spaces: the part B of Rating. The score
// is the sum of -lg((n + 1/2) / (N + 1)) over the line's different words. n is the number of
// earlier lines with the word, N the number of all earlier lines. All words with a digit count as
// one word.
type rarity struct {
	cells [raritySets * setWords]counted
	lines int64
}

const (
	// A hash selects the set of a word. Each set has cells for setWords words, so that frequent
	// words hide no rare word with the same hash.
	raritySets = 1 << 10
	setWords   = 4
	// wordWear is the maximum number of misses until another word gets the cell.
	wordWear = 1 << 12
)

// counted is the number of lines that contain a word. Tag is a hash of the word.
type counted struct {
	Tag   uint16
	Seen  uint16
	Lines uint32
}

// spacedWord is a word of a line. White space and control characters separate words.
type spacedWord struct {
	key
	from, to int
	lines    uint32
}

// take returns the score of a line's different words in bits, and counts the words. rarest is the
// word without a digit that occurs in the fewest earlier lines. If the line has no such word,
// rarest.to is 0.
func (r *rarity) take(of *scratch) (bits float64, rarest spacedWord) {
	n := float64(r.lines) + 1
	for _, w := range of.words {
		if c := r.cell(w.key); c.Seen > 0 && c.Tag == uint16(w.key>>48) {
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
		r.cell(w.key).take(uint16(w.key >> 48))
	}
	r.lines++
	return max(0, bits), rarest
}

// cell returns the cell of a word. If the word has none, cell returns the cell of its set that is
// free, or that has the fewest misses left.
func (r *rarity) cell(word key) *counted {
	set := r.cells[word%raritySets*setWords:][:setWords]
	least := &set[0]
	for i := range set {
		if set[i].Seen > 0 && set[i].Tag == uint16(word>>48) {
			return &set[i]
		}
		if set[i].Seen < least.Seen {
			least = &set[i]
		}
	}
	return least
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
