package lines

import "math"

// excess follows a line byte by byte, and finds the span with the largest sum of cost minus a
// multiple of the expected cost (Kadane's algorithm).
type excess struct {
	ending span  // the best span that ends here
	best   span  // the best span so far
	bytes  int64 // so far
}

// span is a part of a line.
type span struct {
	from, to int64   // bytes of the line
	sum      float64 // cost less a multiple of the expected cost, in bits
}

// add takes in the next byte's cost, its expected cost, and how many times the latter to take off.
func (e *excess) add(cost, expected, times float64) {
	e.bytes++
	e.ending.to = e.bytes
	e.ending.sum += cost - float64(times*expected)
	if e.ending.sum <= 0 {
		e.ending = span{from: e.bytes, to: e.bytes}
	}
	if e.ending.sum > e.best.sum {
		e.best = e.ending
	}
}

const (
	// wholeTimes and partTimes are the multiples of the expected cost that the excess of a whole
	// line and of a part of one take off. A line is strange if much of it is dearer than expected,
	// and also if a part of it is dearer than such a part ever is: a changed field, beside fields
	// that always change.
	wholeTimes = 1
	partTimes  = 3
	// floor is added to the expected cost of a line, in bits, so that a line that was expected to
	// be free is not infinitely strange for costing something.
	floor = 8
)

// whole returns how strange a whole line is that was expected to cost a number of bits: the excess
// for each byte over the square root of the expected cost for each byte, since costs vary like sums
// of independent ones.
func (e *excess) whole(expected float64) float64 {
	return e.best.sum / math.Sqrt(float64((expected+floor)*float64(e.bytes)))
}

// part returns how strange the strangest part of the line is: the excess over the square root of
// the line's expected cost, in units of 8. It does not matter how long the line is.
func (e *excess) part(expected float64) float64 {
	return e.best.sum / float64(8*math.Sqrt(expected+floor))
}
