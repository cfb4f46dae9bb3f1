package companion

// logitMost bounds the logit of a row of weights.
const logitMost = 12

// look is what is known of the next byte at all of its nodes.
type look struct {
	contexts [contextCount]uint32
	expected [matchCount]int // see State.expected
	classes  [matchCount]int
	rows     [setCount]int // of weights; that of the node is found at the node
	last     uint32        // hash of the last byte

	trees [networksMax]tree
	of    int // networks
}

// at makes the look one at a state.
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

// buckets are the offsets of the contexts' buckets for one half of a byte; -1: there is none.
type buckets [contextCount]int

// find finds the buckets of the higher half, or of the lower one, given the hashes for it.
func (b *buckets) find(s *State, hashes *[contextCount]uint32) {
	for i, h := range hashes {
		b[i] = s.table.find(h)
	}
}

// lowers are the hashes of the buckets for the lower half of a byte, given the higher half.
func (l *look) lowers(higher int) (hashes [contextCount]uint32) {
	for i, h := range l.contexts {
		hashes[i] = lower(h, higher)
	}
	return hashes
}

// inputs are what is mixed at a node.
type inputs [inputCount]float32

// gather sets the inputs at a node whose bit is the k-th of its byte, and returns the bit histories
// that the contexts have there.
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
		if expected>>(8-k) == node { // the byte agrees with what is known
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

// meanOf bounds the logits of the sets [set][node] at a node, and returns their mean.
func meanOf[L [8]float32 | [256]float32](logits *[setCount]L, node int) (mean float32) {
	for j := range logits {
		logits[j][node] = limit(logits[j][node], logitMost)
		mean += logits[j][node]
	}
	return mean / setCount
}

// refined is where the refinement is read: between a step and the next.
type refined struct {
	at    int     // of the step
	part  float32 // of the way to the next
	moves bool    // whether the logit is within the steps
}

// refinedAt says where the refinement stands at a node for a logit, and what it is there.
func (l *look) refinedAt(s *State, node int, a float32) (r refined, p float32) {
	const most = refineEdge - 1.0/128
	place := limit(a, most) + refineEdge
	if !(place >= 0) {
		place = 0 // a NaN: the mean keeps it
	}
	step := int(place)
	r = refined{refineOf((l.last+uint32(node)*0x9e3779b1)>>16) + step, place - float32(step),
		within(a, most)}
	return r, float32(s.floats[r.at]*(1-r.part)) + float32(s.floats[r.at+1]*r.part)
}

// bitMost is the largest probability of a bit, and 1 - bitMost the smallest.
const bitMost = 1 - 1.0/(1<<20)

// together is P(1) at a node: of the sets' mean, as a probability, and its refinement.
func together(mean, refined float32) float32 {
	return max(1-bitMost, min(bitMost, (mean+refined)/2))
}
