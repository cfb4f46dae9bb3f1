package lines

// An expectation says what the next byte of a text will cost, from what bytes in such places of the
// text have cost so far. A place is known by the five bytes before it on its line, all digits being
// one. So the digits of a port are expected to be dear, and the word before them to be cheap: what
// is dear in a place that used to be cheap stands out.
type expectation struct {
	places [places]average // of the costs of bytes in a place, by the hash of its context
	all    average         // of the costs of all bytes
	// context is the last five bytes of the line, digits as zeros, the newest lowest; before the
	// line's beginning there are newlines.
	context uint64
}

const (
	places       = 1 << placesLog2
	placesLog2   = 12
	contextBytes = 5
	contextMask  = 1<<(8*contextBytes) - 1
	contextNew   = 0x0a0a0a0a0a // of a line's first byte

	placeMemory = 32   // costs that the average of a place remembers
	allMemory   = 4096 // costs that the average of all bytes remembers
	// shared is how many costs the average of all bytes stands for in the expectation of a place.
	shared = 4
	// dearest is the largest cost that is learnt as it is, in bits: one byte that the model thought
	// impossible does not make a place dear.
	dearest = 16
	// The expectation of a new text is one bit a byte, as if that had been seen 64 times.
	firstCost, firstCosts = 1, 64
)

func newExpectation() expectation {
	return expectation{all: average{firstCost, firstCosts}, context: contextNew}
}

// next returns the expected cost of the next byte in bits, and then takes in the byte and its cost.
func (e *expectation) next(b byte, cost float64) (expected float64) {
	place := &e.places[(e.context*0x9e3779b97f4a7c15)>>(64-placesLog2)]
	expected = place.with(shared, float64(e.all.mean))
	cost = min(cost, dearest)
	place.add(cost, placeMemory)
	e.all.add(cost, allMemory)
	e.context = (e.context<<8 | uint64(shape(b))) & contextMask
	if b == '\n' {
		e.context = contextNew
	}
	return expected
}

// shape makes all digits one.
func shape(b byte) byte {
	if '0' <= b && b <= '9' {
		return '0'
	}
	return b
}
