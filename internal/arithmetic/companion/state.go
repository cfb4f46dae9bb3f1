package companion

import "slices"

// State contains all that the companion stores about a text. It depends only on the settings, the
// text, and the networks' distributions for each byte. A Scratch does all computations on a State.
type State struct {
	settings Settings
	place    place
	table    table
	text     []uint8
	words    []uint32
	floats   []float32
}

const textBytes = 1 << 16

// The parts of State.words, in order.
const (
	headsAt   = 0 // indexed [match][hash of the last bytes]: the offset after those bytes
	headCount = 1 << 14
	// [byte]: the bytes after its last four occurrences
	followersAt = headsAt + matchCount*headCount
	wordCount   = followersAt + 256
)

// An estimate consists of three numbers: a probability, its logit, and the number of bits observed
// so far, at most countMost.
const (
	estimateFloats = 3

	estimateP     = 0
	estimateLogit = 1
	estimateCount = 2
)

// The parts of State.floats, in order.
const (
	mapsAt     = 0 // indexed [context][history]: estimates
	matchesAt  = mapsAt + contextCount*historyCount*estimateFloats
	matchesEnd = matchesAt + matchCount*matchClasses*estimateFloats
	weightsAt  = (matchesEnd + pageFloats - 1) / pageFloats * pageFloats // indexed [row][input]
	refinesAt  = weightsAt + weightRows*inputCount                       // indexed [context][step]
	floatCount = refinesAt + refineContexts*refineSteps
)

// The index of the first row of weights in each set, in ascending order.
const (
	matchRows  = 0
	nodeRows   = matchClasses
	byteRows   = nodeRows + 256
	secondRows = byteRows + 256 // one row for each value of the second-last byte
	weightRows = secondRows + 256
)

// The sets of mixer weights. At each node, the mixer uses one row of each set.
const (
	setMatch = iota
	setNode
	setByte
	setSecond
	setCount
)

// For each context, the refinement is a table of probabilities at evenly spaced logits from -8 to
// 8. Between two entries, the probability is interpolated linearly.
const (
	refineContexts = 1 << 10
	refineSteps    = 2*refineEdge + 1
	refineEdge     = 8
)

// Initial values of a state, before any text. The weights multiply the mixer's inputs.
const (
	weightOfOne    = 0.7 // weight of the network's input if there is only one network
	weightOfFirst  = 0.5 // weight of the first network's input if there are two networks
	weightOfSecond = 0.2
	weightOfCounts = 0.1

	estimateStart = 6 // an initial estimate weighs as much as 6 observed bits
)

// New returns the state of an empty text. The settings must be valid.
func New(set Settings) *State {
	s := &State{
		settings: set, table: make(table, set.TableBytes), text: make([]uint8, textBytes),
		words: make([]uint32, wordCount), floats: make([]float32, floatCount),
	}
	s.start()
	return s
}

// start sets the initial values in a state that contains only zeros.
func (s *State) start() {
	for c := range contextCount {
		for i, h := range histories {
			n0, n1 := float32(h.zeros), float32(h.ones)
			s.estimate(mapOf(c, uint8(i)), (n1+0.4)/(n0+n1+0.8))
		}
		s.floats[mapOf(c, 0)+estimateLogit] = 0 // an empty history predicts nothing
	}
	for m := range matchCount {
		for class := range matchClasses {
			s.estimate(matchOf(m, class), 1-1/(2*float32(class)+2.5))
		}
	}
	for row := range weightRows {
		copy(s.floats[weightsOf(row):], s.firstWeights())
	}
	for context := range refineContexts {
		copy(s.floats[refineOf(uint32(context)):], refineFirst[:])
	}
}

// refineFirst is the initial refinement table. The entry for logit s is 1/(1+e^-s), the unrefined
// probability.
var refineFirst = func() (p [refineSteps]float32) {
	for i := range p {
		p[i] = float32(i - refineEdge)
	}
	squash(portable, p[:])
	return p
}()

func (s *State) estimate(at int, p float32) {
	l := [2]float32{p, 1 - p}
	portable.Log(l[:], l[:])
	s.floats[at+estimateP], s.floats[at+estimateLogit], s.floats[at+estimateCount] = p, l[0]-l[1],
		estimateStart
}

func (s *State) firstWeights() []float32 {
	w := make([]float32, firstMatch+matchCount)
	for i := range w {
		w[i] = weightOfCounts
	}
	w[0], w[1] = weightOfOne, 0
	if s.settings.Networks == 2 {
		w[0], w[1] = weightOfFirst, weightOfSecond
	}
	return w
}

// mapOf returns the index in State.floats of a bit history's estimate. matchOf returns the index of
// a match class's estimate, and weightsOf the index of a row of weights.
func mapOf(context int, history uint8) int {
	return mapsAt + (context*historyCount+int(history))*estimateFloats
}
func matchOf(m, class int) int { return matchesAt + (m*matchClasses+class)*estimateFloats }
func weightsOf(row int) int    { return weightsAt + row*inputCount }

// headOf returns the index in State.words of the offset stored for match m and a hash. followersOf
// returns the index of the bytes that followed byte b.
func headOf(m int, hash uint32) int { return headsAt + m*headCount + int(hash%headCount) }
func followersOf(b uint32) int      { return followersAt + int(b) }

func (s *State) weights(row, n int) []float32 {
	return s.floats[weightsOf(row):weightsOf(row+n)]
}

func refineOf(context uint32) int { return refinesAt + int(context%refineContexts)*refineSteps }

// at returns the byte of the text at an offset. The offset must be among the last textBytes bytes,
// since older bytes are overwritten.
func (s *State) at(offset uint32) uint8 { return s.text[offset%textBytes] }

// Recent returns the last n bytes of the text, or fewer if the state stores fewer.
func (s *State) Recent(n int) []byte {
	n = int(min(uint64(n), s.place.Bytes, textBytes))
	text := make([]byte, n)
	for i := range text {
		text[i] = s.at(uint32(s.place.Bytes) - uint32(n-i))
	}
	return text
}

// above returns the byte of the previous line in the next byte's column, or 0 if that line is too
// short.
func (s *State) above() uint8 {
	p := &s.place
	if p.Column >= p.Width || p.Width > textBytes {
		return 0
	}
	return s.at(uint32(p.Bytes) - p.Width)
}

// expected returns the byte that match m predicts, plus 256. Without a match, expected returns 0.
func (s *State) expected(m int) int {
	if at := s.place.Matches[m].At; at != 0 {
		return 256 | int(s.at(at))
	}
	return 0
}

// Expected appends to dst up to n bytes that the longer of the two matches predicts. Without a
// match, Expected appends nothing.
func (s *State) Expected(dst []byte, n int) []byte {
	m := s.place.Matches[0]
	for _, other := range s.place.Matches[1:] {
		if other.At != 0 && other.Length >= m.Length {
			m = other
		}
	}
	for end := uint32(s.place.Bytes); m.At != 0 && n > 0 && m.At != end; n-- {
		dst = append(dst, s.at(m.At))
		m.At++
	}
	return dst
}

// Settings returns the settings of the state.
func (s *State) Settings() Settings { return s.settings }

// Clone returns a copy that shares no memory with the state.
func (s *State) Clone() *State {
	c := *s
	c.table, c.text = slices.Clone(s.table), slices.Clone(s.text)
	c.words, c.floats = slices.Clone(s.words), slices.Clone(s.floats)
	return &c
}

// CopyFrom copies another state with the same settings into s.
func (s *State) CopyFrom(other *State) {
	s.place = other.place
	copy(s.table, other.table)
	copy(s.text, other.text)
	copy(s.words, other.words)
	copy(s.floats, other.floats)
}

// Reset makes s the state of an empty text.
func (s *State) Reset() {
	s.place = place{}
	clear(s.table)
	clear(s.text)
	clear(s.words)
	clear(s.floats)
	s.start()
}

// Bytes returns the memory in bytes of a state with these settings.
func Bytes(set Settings) int64 {
	return int64(set.TableBytes) + textBytes + 4*(wordCount+floatCount)
}

// Length returns the number of bytes of the state's text.
func (s *State) Length() uint64 { return s.place.Bytes }
