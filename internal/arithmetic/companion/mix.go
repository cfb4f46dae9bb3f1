package companion

// logitMost is the maximum absolute logit of a row of weights.
const logitMost = 12

// look contains the values that all nodes of the next byte have in common.
type look struct {
	contexts [contextCount]uint32
	expected [matchCount]int // results of State.expected for each match
	classes  [matchCount]int
	rows     [setCount]int // index of the row of weights in each set; in setNode, the node is added
	last     uint32        // hash of the last byte

	trees [networksMax]tree
	of    int // number of networks
}

// at computes the look for the next byte of a state.
func (l *look) at(s *State) {
	l.contexts = s.contexts()
	for m := range s.place.Matches {
		l.expected[m], l.classes[m] = s.expected(m), s.place.Matches[m].class()
	}
	last := int(s.place.order(1))
	l.rows = [setCount]int{
		setMatch: matchRows + l.classes[0], setByte: byteRows + last,
		setSecond: secondRows + int(s.place.order(2)>>8),
	}
	l.last = hash(uint32(last), 5)
}

// buckets are the table offsets of the contexts' buckets for one half of a byte; -1 means no
// bucket.
type buckets [contextCount]int

// find sets the bucket of each context for one half of a byte, given the hashes of that half.
func (b *buckets) find(s *State, hashes *[contextCount]uint32) {
	for i, h := range hashes {
		b[i] = s.table.find(h)
	}
}

// lowers returns the hashes that find the contexts' buckets for the lower four bits of a byte,
// given the higher four bits.
func (l *look) lowers(higher int) (hashes [contextCount]uint32) {
	for i, h := range l.contexts {
		hashes[i] = lower(h, higher)
	}
	return hashes
}

// inputs are the mixer's inputs at a node.
type inputs [inputCount]float32

// gather sets the mixer's inputs at a node that decides bit k of its byte. It returns each
// context's bit history at the node.
func (in *inputs) gather(s *State, l *look, b *buckets, node, k int) (met [contextCount]uint8) {
	for i := range networksMax {
		in[firstNetwork+i] = 0
		if i < l.of {
			in[firstNetwork+i] = l.trees[i].logit(node)
		}
	}
	half := nodeInHalf(node)
	for i, at := range b {
		in[firstContext+i] = 0
		if at >= 0 {
			met[i] = s.table[at+half]
			in[firstContext+i] = s.floats[mapOf(i, met[i])+estimateLogit]
		}
	}
	for m, expected := range l.expected {
		x := float32(0)
		if expected>>(8-k) == node { // the bits known so far equal those of the predicted byte
			x = s.floats[matchOf(m, l.classes[m])+estimateLogit]
			if expected>>(7-k)&1 == 0 {
				x = -x
			}
		}
		in[firstMatch+m] = x
	}
	in[constant] = constantInput
	return met
}

// meanOf clamps the logits of all sets at a node in place, and returns their mean.
func meanOf[L [8]float32 | [256]float32](logits *[setCount]L, node int) (mean float32) {
	for j := range logits {
		logits[j][node] = limit(logits[j][node], logitMost)
		mean += logits[j][node]
	}
	return mean / setCount
}

// refined is a position between two entries of the refinement table.
type refined struct {
	at    int     // index in State.floats of the entry below the position
	part  float32 // fraction of the distance to the next entry
	moves bool    // false if the logit is outside the range of the table
}

// refinedAt returns the position of a logit in a node's refinement table, and the interpolated
// probability.
func (l *look) refinedAt(s *State, node int, a float32) (r refined, p float32) {
	const most = refineEdge - 1.0/128
	place := limit(a, most) + refineEdge
	if !(place >= 0) {
		place = 0 // for NaN any entry will do, since the mean remains NaN
	}
	step := int(place)
	r = refined{refineOf((l.last+uint32(node)*0x9e3779b1)>>16) + step, place - float32(step),
		within(a, most)}
	return r, float32(s.floats[r.at]*(1-r.part)) + float32(s.floats[r.at+1]*r.part)
}

// bitMost is the maximum probability of a bit. The minimum is 1 - bitMost.
const bitMost = 1 - 1.0/(1<<20)

// together returns P(1) at a node, which is the mean of a probability and its refinement.
func together(mean, refined float32) float32 {
	return max(1-bitMost, min(bitMost, (mean+refined)/2))
}
