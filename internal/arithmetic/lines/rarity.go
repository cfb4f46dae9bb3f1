package lines

import "slices"

// rarity rates a line by the words between its spaces (B): the sum over its different words, all
// with a digit being one, of -lg((lines with the word + 1/2) / (lines + 1)).
type rarity struct {
	cells [rarityCells]counted
	lines int64
}

const (
	rarityCells = 1 << 10
	wordWear    = 1 << 12 // how often a word has to be missed, at most, before another takes its cell
)

// counted says how many lines have had one of the words whose hash it has.
type counted struct {
	Tag   uint16
	Seen  uint16 // how often it has to be missed before another word takes the cell
	Lines uint32
}

// take rates a line by the keys of its different words, in bits, and takes it in.
func (r *rarity) take(keys []key) (bits float64) {
	n := float64(r.lines) + 1
	for _, k := range keys {
		c, lines := &r.cells[k%rarityCells], 0.
		if c.Seen > 0 && c.Tag == uint16(k>>48) {
			lines = float64(c.Lines)
		}
		bits += bitsOf((lines + .5) / n)
	}
	for _, k := range keys {
		r.cells[k%rarityCells].take(uint16(k >> 48))
	}
	r.lines++
	return max(0, bits)
}

// take counts a line with a word of a tag. A cell that belongs to another wears off.
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
	c.Lines++
}

// spaced appends the keys of the different words between spaces.
func spaced(keys []key, line []byte) []key {
	for i := 0; i < len(line); {
		if line[i] <= ' ' {
			i++
			continue
		}
		k := seedSpaced
		digit := false
		for ; i < len(line) && line[i] > ' '; i++ {
			digit = digit || isDigit(line[i])
			k = k.plus(line[i])
		}
		if digit {
			k = seedDigits
		}
		if k = k.spread(); !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	return keys
}
