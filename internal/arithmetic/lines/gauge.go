package lines

// gauge turns the raw scores of a text's lines into probabilities.
type gauge struct {
	lengths lengths
	tail    tail
}

func newGauge() gauge { return gauge{newLengths(), newTail()} }

// take returns the probability of a raw score at least as large for a line of a length in bytes,
// from the lines before it, and takes in the line.
func (g *gauge) take(bytes int64, raw float64) (p float64) {
	score := g.lengths.level(bytes, raw)
	p = g.tail.p(score)
	g.lengths.add(bytes, raw)
	g.tail.add(score, p)
	return p
}
