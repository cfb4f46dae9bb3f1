package lines

import "math"

// tail is the distribution of the scores of a text's lines. It forgets old lines. At first the
// newer half of the lines has seven eighths of the weight. In a long text about the last
// lineMemory lines count.
type tail struct {
	counts [bins]float64 // weights of the lines in each bin
	weight float64       // of the next line
	lines  int64         // lines seen
	last   int64         // number of the last strange line, from 1; 0: none
}

const (
	// A bin is an eighth of an octave of score + least, from a score of 0 to one of 2^10.
	bins     = 16 << binsLog2
	binsLog2 = 3
	// least is the score below which scores hardly differ.
	least = 1. / 64
	// ordinary is a typical score of any text.
	ordinary = 1. / 16

	lineMemory = 4096
	// forgetting is the exponent with which a line's weight grows with its number. Few models
	// know a text at its beginning, so the first lines are forgotten soon.
	forgetting = 2
	// All weights are divided by lighter when the next line's weight reaches lineMemory *
	// lighter.
	lighter = 1 << 20

	// A line is strange, for the tail's own purpose, at this probability or below.
	strange = 1. / 64
	// apart is the distance, in lines, from which on a strange line counts fully. Closer ones
	// count less, so that a burst counts about as one line.
	apart = 64
)

func newTail() tail { return tail{weight: 1} }

// p returns the probability of a score at least as large: the weight of lines with such a score,
// divided by the weight of all lines. Both include this line; the first counts it only in part,
// less for a larger score. So scores above all earlier ones still differ: twice the score is half
// as likely.
func (t *tail) p(score float64) float64 {
	return t.share(score, least, ordinary/(ordinary+score),
		1)
}

// share returns the weight of the lines with a score at least as large, plus above times this
// line's weight. It divides that sum by the weight of all lines plus prior times this line's.
func (t *tail) share(score, least, above, prior float64) float64 {
	bin, part := position(score, least)
	above = float64(t.weight*above) + float64(t.counts[bin]*(1-part))
	for _, count := range t.counts[bin+1:] {
		above += count
	}
	all := float64(t.weight * prior)
	for _, count := range t.counts {
		all += count
	}
	return above / all
}

// position returns a score's bin, and the fraction of the bin below the score. The bits of a
// float64 approximate its logarithm, linearly between powers of two.
func position(score, least float64) (bin int, part float64) {
	const shift = 52 - binsLog2
	at := math.Float64bits(score+least) - math.Float64bits(least)
	bin = int(at >> shift)
	if bin >= bins {
		return bins - 1, 1
	}
	return bin, float64(at&(1<<shift-1)) / (1 << shift)
}

// add adds a line with its score and its probability from p.
func (t *tail) add(score, p float64) { t.put(score, least, p) }

func (t *tail) put(score, least, p float64) {
	t.lines++
	weight := t.weight
	if p <= strange {
		if t.last > 0 {
			weight *= min(1, float64(t.lines-t.last)/apart)
		}
		t.last = t.lines
	}
	bin, _ := position(score, least)
	t.counts[bin] += float64(weight)
	t.grow()
}

// grow raises the weight of the next line, instead of lowering the weights of all lines before.
func (t *tail) grow() {
	t.weight += float64(t.weight * max(forgetting/float64(t.lines), 1./lineMemory))
	if t.weight < lineMemory*lighter {
		return
	}
	t.weight /= lighter
	for i := range t.counts {
		t.counts[i] /= lighter
	}
}
