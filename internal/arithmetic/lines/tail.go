package lines

import "math"

// tail is the distribution of the scores of a text's lines. It forgets: of the first lines the last
// half has seven eighths of the weight, and of very many lines about the last lineMemory count.
type tail struct {
	counts [bins]float64 // weights of the lines in each bin
	weight float64       // of the next line
	lines  int64         // seen
	last   int64         // number of the last strange line, counted from 1; 0: none
}

const (
	// A bin is an eighth of an octave of score + least, from a score of 0 to one of 2^10.
	bins     = 16 << binsLog2
	binsLog2 = 3
	// least is the score below which scores do not differ much.
	least = 1. / 64
	// ordinary is an ordinary score, of any text.
	ordinary = 1. / 16

	lineMemory = 4096
	// forgetting is how fast the first lines are forgotten: the weight of a line grows like this
	// power of its number. Few models know a text at its beginning.
	forgetting = 2
	// All weights are divided by lighter when the next line's has grown to lineMemory * lighter.
	lighter = 1 << 20

	// A line is strange, for the tail's own purpose, if its probability is at most this.
	strange = 1. / 64
	// apart is how many lines after another a strange line counts fully. Those of a burst count
	// less, the closer the less: a burst counts about as one line.
	apart = 64
)

func newTail() tail { return tail{weight: 1} }

// p returns the probability of a score at least as large: the weight of the lines with such a score
// and of this one, over the weight of all lines and of this one. Above the line is not this one's
// whole weight, but a part of it, the smaller the larger the score. So scores that no line before
// has had still differ: one that is twice as large is half as likely.
func (t *tail) p(score float64) float64 {
	return t.share(score, least, ordinary/(ordinary+score),
		1)
}

// share returns the weight of the lines with a score at least as large, and of so many lines like
// this one as above are, over the weight of all and of so many as prior are.
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

// position returns a score's bin, and the part of the bin that is below the score. The bits of a
// float64 are its logarithm, interpolated between powers of two.
func position(score, least float64) (bin int, part float64) {
	const shift = 52 - binsLog2
	at := math.Float64bits(score+least) - math.Float64bits(least)
	bin = int(at >> shift)
	if bin >= bins {
		return bins - 1, 1
	}
	return bin, float64(at&(1<<shift-1)) / (1 << shift)
}

// add takes in a line with its score and the probability that p gave for it.
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

// grow makes the next line weigh more than those before, instead of making those weigh less.
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
