package lines

import "math"

// tail is the distribution of the scores of a text's lines. It forgets old lines. In a short text,
// the newer half of the lines has seven eighths of the weight. In a long text, only about the last
// lineMemory lines count.
type tail struct {
	counts [bins]float64
	weight float64
	lines  int64
	last   int64 // number of the last strange line, from 1; 0 if there is none
}

const (
	// Each doubling of score + least spans 8 bins. The bins cover scores from 0 to 2^10.
	bins     = 16 << binsLog2
	binsLog2 = 3
	// Differences between two scores below this number hardly matter.
	least = 1. / 64
	// ordinary is a typical score of any text.
	ordinary = 1. / 16

	lineMemory = 4096
	// forgetting is the exponent with which a line's weight grows with its number. Most models
	// predict the first lines of a text badly, so these lines must be forgotten soon.
	forgetting = 2
	// All weights are divided by the constant lighter when the next line's weight reaches
	// lineMemory * lighter. This keeps the weights finite.
	lighter = 1 << 20

	// A tail treats a line as strange if the line's probability is at most this number. Incidents
	// use another threshold.
	strange = 1. / 64
	// apart is the minimum distance, in lines, between two strange lines that both count fully. At
	// a smaller distance the later line counts less, so that a burst counts as about one line.
	apart = 64
)

func newTail() tail { return tail{weight: 1} }

// p returns the probability of a score of at least the given score: H/T, with the weight H of the
// lines with such scores and the weight T of all lines. The rated line is included in T fully, and
// in H with the factor ordinary/(ordinary + score). So even scores above all earlier scores differ:
// twice the score is about half as likely.
func (t *tail) p(score float64) float64 {
	return t.share(score, least, ordinary/(ordinary+score),
		1)
}

// share returns (H + above*w) / (T + prior*w). H is the weight of the lines with at least the given
// score. T is the weight of all lines, and w the weight of the next line.
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
		return bins - 1, 0 // all scores beyond the bins count as equal
	}
	return bin, float64(at&(1<<shift-1)) / (1 << shift)
}

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

// grow raises the weight of the next line. This has the effect of lowering the weights of all lines
// before, but costs less.
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
