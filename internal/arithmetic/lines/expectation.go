package lines

// An expectation says what the next byte of a text will cost, from what bytes in such places of the
// text have cost so far. A place is known by the five bytes before it on its line, all digits being
// one. So the digits of a port are expected to be dear, and the word before them to be cheap: what
// is dear in a place that used to be cheap stands out. Where the five bytes are new, what counts is
// the field, which is known by the last word before its own.
type expectation struct {
	places [places]cell    // of the costs of bytes in a place, by the hash of its context
	fields [fields]average // of the costs of bytes in a field, by the hash of the word before it
	all    average         // of the costs of all bytes

	at place // the next byte's
}

// place is where in a line a byte stands.
type place struct {
	// context is the last five bytes of the line, digits as zeros, the newest lowest; before the
	// line's beginning there are newlines. Word is the hash of the word under way, 0 between words,
	// and before that of the last word that has ended, 0 if the line has none.
	context, word, before uint64
}

const (
	places       = 1 << placesLog2
	placesLog2   = 12
	fields       = 1 << fieldsLog2
	fieldsLog2   = 10
	contextBytes = 5
	contextMask  = 1<<(8*contextBytes) - 1
	contextNew   = 0x0a0a0a0a0a // of a line's first byte

	placeMemory = 32   // costs that the average of a place remembers
	fieldMemory = 256  // costs that the average of a field remembers
	allMemory   = 4096 // costs that the average of all bytes remembers
	// likeField is how many costs the average of the field stands for in the expectation of a
	// place, and likeAny how many the average of all bytes stands for in that of a field.
	likeField = 4
	likeAny   = 16
	// dearest is the largest cost that is learnt as it is, in bits: one byte that the model thought
	// impossible does not make a place dear.
	dearest = 16
	// The expectation of a new text is one bit a byte, as if that had been seen 64 times.
	firstCost, firstCosts = 1, 64
)

var lineBegin = place{context: contextNew}

func newExpectation() expectation {
	return expectation{all: average{firstCost, firstCosts}, at: lineBegin}
}

// next returns the expected cost of the next byte in bits, and moves on behind the byte.
func (e *expectation) next(b byte) (expected float64) {
	place, field := e.averages(e.at)
	expected = field.with(likeAny, float64(e.all.Mean))
	if place.Tag == e.at.tag() {
		expected = place.with(likeField, expected)
	}
	e.at.pass(b)
	return expected
}

// learn ends the line, and takes in its text and the costs of its bytes. Only now: costs do not
// change what the rest of their line is expected to cost.
func (e *expectation) learn(text []byte, costs []float32) {
	at := lineBegin
	for i, b := range text {
		place, field := e.averages(at)
		cost := min(float64(costs[i]), dearest)
		place.learn(at.tag(), cost)
		field.add(cost, fieldMemory)
		e.all.add(cost, allMemory)
		at.pass(b)
	}
	e.at = lineBegin
}

// averages are those of a place and its field.
func (e *expectation) averages(at place) (place *cell, field *average) {
	return &e.places[hash(at.context, placesLog2)], &e.fields[hash(at.before, fieldsLog2)]
}

// cell is the average of one of the places whose hash it has.
type cell struct {
	Tag uint16 // of the place
	average
}

// learn takes in a cost in a place. A cell that belongs to another place wears off, and is taken
// over when nothing is left of it: places that occur once do not drive out those that recur.
func (c *cell) learn(tag uint16, cost float64) {
	switch {
	case c.Tag == tag:
		c.add(cost, placeMemory)
	case c.Seen > 1:
		c.Seen--
	default:
		*c = cell{Tag: tag}
		c.add(cost, placeMemory)
	}
}

// tag tells places of the same hash apart.
func (p place) tag() uint16 { return uint16(p.context * 0x9e3779b97f4a7c15 >> 16) }

// pass moves on behind a byte.
func (p *place) pass(b byte) {
	b = shape(b)
	p.context = (p.context<<8 | uint64(b)) & contextMask
	switch {
	case inWord(b):
		p.word = (p.word + uint64(b)) * 0x100000001b3
	case p.word != 0:
		p.before, p.word = p.word, 0
	}
}

// shape makes all digits one.
func shape(b byte) byte {
	if '0' <= b && b <= '9' {
		return '0'
	}
	return b
}

// inWord reports whether a byte of that shape is part of a word: of a name, a number or a path.
func inWord(b byte) bool {
	switch {
	case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', b >= 0x80:
		return true
	}
	return b == '0' || b == '-' || b == '_' || b == '.' || b == '/'
}

// hash spreads a key over 1<<log2 numbers.
func hash(key uint64, log2 int) uint64 { return key * 0x9e3779b97f4a7c15 >> (64 - log2) }
