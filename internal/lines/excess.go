package lines

import "math"

// excess follows a line byte by byte, and finds the span with the largest sum of cost minus
// expectation (Kadane's algorithm).
type excess struct {
	expected float64 // cost of the bytes so far, in bits
	bytes    int64   // so far
	begin    int64   // of the span that ends here
	sum      float64 // over that span
	from, to int64   // the best span
	best     float64 // sum over it
}

// add takes in the next byte's cost and expected cost.
func (e *excess) add(cost, expected float64) {
	e.expected += expected
	e.sum += cost - expected
	e.bytes++
	if e.sum <= 0 {
		e.sum, e.begin = 0, e.bytes
	}
	if e.sum > e.best {
		e.best, e.from, e.to = e.sum, e.begin, e.bytes
	}
}

// floor is added to the expected cost of a line, in bits, so that a line that was expected to be
// free is not infinitely strange for costing something.
const floor = 8

// raw is the best span's sum for each byte of the line, over the square root of the expected cost
// for each byte: what a line costs varies like a sum of independent costs, by the root of what it
// is expected to cost.
func (e *excess) raw() float64 {
	return e.best / math.Sqrt(float64((e.expected+floor)*float64(e.bytes)))
}
