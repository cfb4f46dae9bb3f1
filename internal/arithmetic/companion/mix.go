package companion

// logitMost limits the absolute value of the mixer's logits.
const logitMost = 12

// look contains the values that are common to all 255 nodes of the binary tree that codes the next
// byte.
type look struct {
	contexts [contextCount]uint32
	expected [matchCount]int
	classes  [matchCount]int
	// The index of the weight row in each set. The element for setNode is unused, because its row
	// depends on the node.
	rows [setCount]int
	last uint32

	trees [networksMax]tree
	of    int
}

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

// buckets holds, for each context, the offset of its bucket in the hash table. -1 means that the
// context has no bucket.
type buckets [contextCount]int

func (b *buckets) find(s *State, hashes *[contextCount]uint32) {
	for i, h := range hashes {
		b[i] = s.table.find(h)
	}
}

// lowers returns each context's hash for the lower four bits of a byte, given the higher four bits.
func (l *look) lowers(higher int) (hashes [contextCount]uint32) {
	for i, h := range l.contexts {
		hashes[i] = lower(h, higher)
	}
	return hashes
}

type inputs [inputCount]float32

// gather computes the mixer's inputs at a tree node, which codes bit k of a byte. It returns each
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

// meanOf clamps a node's logits from all weight sets in place, and returns their mean.
func meanOf[L [8]float32 | [256]float32](logits *[setCount]L, node int) (mean float32) {
	for j := range logits {
		logits[j][node] = limit(logits[j][node], logitMost)
		mean += logits[j][node]
	}
	return mean / setCount
}

// refined is a position between two entries of the refinement table.
type refined struct {
	at    int     // index in State.floats of the table entry below the position
	part  float32 // position between the two entries, from 0 to 1
	moves bool    // false if the logit is outside the range of the table
}

// refinedAt returns the position of a logit in a node's refinement table, and the interpolated
// probability.
func (l *look) refinedAt(s *State, node int, a float32) (r refined, p float32) {
	const most = refineEdge - 1.0/128
	place := limit(a, most) + refineEdge
	if !(place >= 0) {
		place = 0 // For a NaN logit the entry does not matter, since the result is NaN anyway.
	}
	step := int(place)
	r = refined{refineOf((l.last+uint32(node)*0x9e3779b1)>>16) + step, place - float32(step),
		within(a, most)}
	return r, float32(s.floats[r.at]*(1-r.part)) + float32(s.floats[r.at+1]*r.part)
}

// bitMost is the maximum probability of a bit. The minimum is 1 - bitMost.
const bitMost = 1 - 1.0/(1<<20)

// together returns the clamped average of two probabilities of a 1 bit: the mixer's, and the
// refined one.
func together(mean, refined float32) float32 {
	return max(1-bitMost, min(bitMost, (mean+refined)/2))
}
