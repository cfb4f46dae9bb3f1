package companion

import "math"

const (
	// The learning rate of the weights is rateLeast plus a decaying part. The decaying part starts
	// at rateMore and is half as large after rateBits bits.
	rateLeast = 0.005
	rateMore  = 0.016
	rateBits  = 16384

	countMost  = 255 // maximum bit count of an estimate; the limit lets old bits lose influence
	refineRate = 0.01

	// estimateEdge is the minimum of an estimated probability. The maximum is 1 - estimateEdge.
	estimateEdge = 1.0 / 4096
)

func (x *Scratch) learn(s *State, b byte) {
	x.learnWeights(s)
	x.learnEstimates(s)
	x.learnRefinement(s)
	x.learnHistories(s, b)
	x.goOn(s, b)
}

// Pass appends a byte to the state's text without learning it. passed is the number of bytes
// already appended by Pass. Contexts and matches advance; counts do not change.
func (x *Scratch) Pass(s *State, b byte, passed uint64) {
	learnt := uint32(s.place.Bytes - passed)
	x.step(s, b)
	for m, least := range matchLeast {
		if s.place.Bytes >= uint64(least) {
			s.find(m, least)
		}
		if found := &s.place.Matches[m]; found.At == learnt {
			*found = match{} // the match has reached bytes that were not learned
		}
	}
}

// learnWeights takes a gradient step on each set of mixer weights. The loss of a set is that of the
// set's own prediction.
func (x *Scratch) learnWeights(s *State) {
	bits := 8 * float32(s.place.Bytes)
	rate := float32(rateLeast) + rateMore/(1+float32(bits/rateBits))
	for j, row := range x.look.rows {
		var steps [len(x.nodes)]float32
		for k := range x.nodes {
			steps[k] = rate * (x.nodes[k].bit - x.nodes[k].sets[j])
		}
		if j != setNode {
			x.vectors.AxpyRows(x.row(s, row), steps[:], x.path[:])
			continue
		}
		for k := range x.nodes {
			inputs := x.path[k*inputCount : (k+1)*inputCount]
			x.vectors.AxpyRows(x.row(s, nodeRows+x.nodes[k].node), steps[k:k+1], inputs)
		}
	}
}

// row records a row of weights in the undo journal, then returns the row for changes.
func (x *Scratch) row(s *State, row int) []float32 {
	at := weightsOf(row)
	x.known.floats.keep(s.floats, int32(at/pageFloats))
	return s.floats[at : at+inputCount]
}

// moved lists the estimates that a byte has changed. Their cached logits must be recomputed.
type moved struct {
	n  int
	at [8 * (contextCount + matchCount)]int32
	// The new probabilities that a bit is 1 and that it is 0, for each changed estimate.
	ones, zeros [8 * (contextCount + matchCount)]float32
}

func (x *Scratch) learnEstimates(s *State) {
	all := &x.moved
	all.n = 0
	for k := range x.nodes {
		node := &x.nodes[k]
		for i, h := range node.met {
			if h != 0 {
				x.move(s, mapOf(i, h), node.bit)
			}
		}
		for m, expected := range x.look.expected {
			if expected>>(8-k) == node.node {
				hit := float32(0)
				if float32(expected>>(7-k)&1) == node.bit {
					hit = 1
				}
				x.move(s, matchOf(m, x.look.classes[m]), hit)
			}
		}
	}
	ones, zeros := all.ones[:all.n], all.zeros[:all.n]
	x.vectors.Log(ones, ones)
	x.vectors.Log(zeros, zeros)
	for i, estimate := range all.at[:all.n] {
		s.floats[estimate+estimateLogit] = ones[i] - zeros[i]
	}
}

func (x *Scratch) move(s *State, estimate int, bit float32) {
	x.known.floats.keep(s.floats, int32(estimate/pageFloats))
	if estimate%pageFloats > pageFloats-estimateFloats {
		x.known.floats.keep(s.floats, int32(estimate/pageFloats+1))
	}
	e := (*[estimateFloats]float32)(s.floats[estimate:])
	one := inside(e[estimateP] + (bit-e[estimateP])/(e[estimateCount]+1.5))
	e[estimateP] = one
	if e[estimateCount] < countMost {
		e[estimateCount]++
	}
	all := &x.moved
	all.at[all.n], all.ones[all.n], all.zeros[all.n] = int32(estimate), one, 1-one
	all.n++
}

// inside clamps a probability to the range from estimateEdge to 1 - estimateEdge. p must not be
// NaN. The comparison of bits as integers compiles without branches. Positive floats have the same
// order as their bits.
func inside(p float32) float32 {
	return math.Float32frombits(max(edgeBits, min(otherEdgeBits, math.Float32bits(p))))
}

var edgeBits, otherEdgeBits = math.Float32bits(estimateEdge), math.Float32bits(1 - estimateEdge)

func (x *Scratch) learnRefinement(s *State) {
	for k := range x.nodes {
		n := &x.nodes[k]
		at := n.refined.at
		if n.refined.part > 0.5 {
			at++
		}
		x.known.floats.keep(s.floats, int32(at/pageFloats))
		p := s.floats[at] + float32((n.bit-s.floats[at])*refineRate)
		s.floats[at] = max(1-bitMost, min(bitMost, p))
	}
}

func (x *Scratch) learnHistories(s *State, b byte) {
	hashes := x.look.lowers(int(b >> 4))
	for i := range contextCount {
		x.append(s, x.look.contexts[i], b, 0)
		x.append(s, hashes[i], b, 4)
	}
}

// append adds four bits of the byte b, starting at bit k, to the bit histories of a context with
// hash h. If the bucket contains another context, append clears the bucket first.
func (x *Scratch) append(s *State, h uint32, b byte, k int) {
	at, check := s.table.place(h)
	x.known.table.keep(s.table, at)
	here := s.table.at(at)
	if here[0] != check {
		*here = bucket{check}
	}
	n, nibble := 1, int(b>>(4-k))
	for i := 3; i >= 0; i-- {
		bit := nibble >> i & 1
		here[n&(bucketBytes-1)] = nextHistory[here[n&(bucketBytes-1)]][bit]
		n = 2*n + bit
	}
}

// goOn appends a byte to the text. It also stores the offset under the hash of the last bytes, so
// that find can begin a match there.
func (x *Scratch) goOn(s *State, b byte) {
	follower := followersOf(uint32(s.place.order(1)))
	x.known.words.keep(s.words, follower)
	x.step(s, b)
	s.words[follower] = s.words[follower]<<8 | uint32(b)
	for m, least := range matchLeast {
		if s.place.Bytes < uint64(least) {
			continue
		}
		head := s.find(m, least)
		x.known.words.keep(s.words, head)
		s.words[head] = uint32(s.place.Bytes)
	}
}

func (x *Scratch) step(s *State, b byte) {
	at := int(s.place.Bytes % textBytes)
	x.known.text.keep(s.text, at)
	for m := range s.place.Matches {
		s.place.Matches[m].follow(s.expected(m) == 256|int(b))
	}
	s.text[at] = b
	s.place.step(b)
}

// find searches for a new match if the current match is weak. It returns the index in State.words
// of the entry for the last bytes.
func (s *State) find(m, least int) (head int) {
	head = headOf(m, s.place.recent(least))
	if found := &s.place.Matches[m]; found.weak(least) {
		if n := s.agree(s.words[head]); n >= least {
			*found = match{At: s.words[head], Length: uint32(n)}
		}
	}
	return head
}

// agree returns the number of equal bytes before the current offset and before an earlier offset,
// at most matchMost.
func (s *State) agree(before uint32) (n int) {
	if before == 0 || !reachable(before, s.place.Bytes) {
		return 0
	}
	here := uint32(s.place.Bytes)
	for n < matchMost && n < int(before) && s.at(before-1-uint32(n)) == s.at(here-1-uint32(n)) {
		n++
	}
	return n
}
