package lines

import "math/bits"

// lengths knows how large the raw scores of lines typically are, by the lines' lengths.
type lengths struct {
	all     average
	classes [64]average // by the number of binary digits of a line's length in bytes
}

const (
	lengthMemory = 256 // raw scores that an average remembers
	// likeAll is how many lines the average of all lines stands for in a class of lengths.
	likeAll = 16
	// usual bounds the raw scores that are learnt as they are, in averages: one strange line does
	// not make strange lines typical.
	usual = 2
	// smallest is the least that an average is taken for.
	smallest = 1. / 64
	// The average of a new text is a raw score of 1/4, as if that had been seen 8 times.
	firstRaw, firstRaws = .25, 8
)

func newLengths() lengths { return lengths{all: average{firstRaw, firstRaws}} }

// level returns the raw score that a line of average length would have in the place of the given
// one: raw times the average of all lines over that of the lines of like length in bytes so far.
// As long as these are few, their average is taken to be more like that of all lines.
func (l *lengths) level(bytes int64, raw float64) float64 {
	all := max(smallest, float64(l.all.Mean))
	return raw * (all / max(smallest, l.class(bytes).with(likeAll, all)))
}

// add takes in the raw score of a line.
func (l *lengths) add(bytes int64, raw float64) {
	raw = min(raw, max(smallest, usual*float64(l.all.Mean)))
	l.all.add(raw, lengthMemory)
	l.class(bytes).add(raw, lengthMemory)
}

func (l *lengths) class(bytes int64) *average { return &l.classes[bits.Len64(uint64(bytes))] }
