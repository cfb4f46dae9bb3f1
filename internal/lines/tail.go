package lines

import "math"

// tail is the distribution of the scores of a text's lines. It forgets: of n lines the last half
// has three quarters of the weight, and of more than lineMemory lines about lineMemory count.
type tail struct {
	counts [bins]float64 // weights of the lines in each bin
	weight float64       // of the next line
	mean   float64       // of scores, those beyond four times the mean taken as that
	meanOf int64         // how many scores the mean is of, up to the number of those it remembers
	lines  int64         // seen
	last   int64         // number of the last strange line, 0: none
}

const (
	// A bin is an eighth of an octave of score + 1/4, from a score of 0 to one of 2^14.
	bins     = 16 << binsLog2
	binsLog2 = 3
	offset   = 0.25

	lineMemory = 4096
	// All weights are divided by lighter when the next line's is lineMemory * lighter.
	lighter = 1 << 20

	// The mean begins with a score of 1 as if that had been seen 8 times.
	firstScore, firstScores = 1, 8
	scoreMemory             = 256

	// A line is strange, for the tail's own purpose, if P is at most this.
	strange = 1. / 64
	// apart is how many lines after another a strange line counts fully. Those of a burst count
	// less, the closer the less: a burst counts about as one line.
	apart = 32
)

func newTail() tail { return tail{weight: 1, mean: firstScore, meanOf: firstScores} }

// p returns the probability of a score at least as large: the weight of the lines with such a score
// and of this one, over the weight of all lines and of this one. This line's own weight is not
// counted fully: m/(m + score) of it is, m being the mean score. So scores that no line before has
// had still differ, and a score twice as large is half as likely.
func (t *tail) p(score float64) float64 {
	bin, part := position(score)
	above := float64(t.counts[bin] * (1 - part))
	for _, count := range t.counts[bin+1:] {
		above += count
	}
	total := t.weight
	for _, count := range t.counts {
		total += count
	}
	own := float64(t.weight*t.mean) / (t.mean + score)
	return (own + above) / total
}

// position returns a score's bin, and the part of the bin that is below the score. The bits of a
// float64 are its logarithm, interpolated between powers of two.
func position(score float64) (bin int, part float64) {
	const shift = 52 - binsLog2
	at := math.Float64bits(score+offset) - math.Float64bits(offset)
	bin = int(at >> shift)
	if bin >= bins {
		return bins - 1, 1
	}
	return bin, float64(at&(1<<shift-1)) / (1 << shift)
}

// add takes in a line with its score and the probability that p gave for it.
func (t *tail) add(score, p float64) {
	t.lines++
	weight := t.weight
	if p <= strange {
		if t.last > 0 {
			weight *= min(1, float64(t.lines-t.last)/apart)
		}
		t.last = t.lines
	}
	bin, _ := position(score)
	t.counts[bin] += weight
	t.meanOf = min(t.meanOf+1, scoreMemory)
	t.mean += (min(score, 4*t.mean) - t.mean) / float64(t.meanOf)
	t.grow()
}

// grow makes the next line weigh more than those before, instead of making those weigh less.
func (t *tail) grow() {
	t.weight += max(1, t.weight/lineMemory)
	if t.weight < lineMemory*lighter {
		return
	}
	t.weight /= lighter
	for i := range t.counts {
		t.counts[i] /= lighter
	}
}
