package companion

func (s *State) contexts() (hashes [contextCount]uint32) {
	p, last := &s.place, uint32(s.place.order(1))
	for i, n := range [...]int{0, 1, 2, 3, 4, 6} {
		of := p.order(n)
		hashes[contextOrder0+i] = hash(uint32(of), uint32(of>>32)+uint32(77*n))
	}
	hashes[contextWord] = hash(p.Word, last)
	hashes[contextColumn] = hash(uint32(s.above()), min(p.Column, 255)+2000)
	hashes[contextField] = hash(p.Field, p.Word+5000)
	expected, class := s.expectation()
	hashes[contextExpected] = hash(uint32(expected), uint32(class)+8500)
	hashes[contextFollowed] = hash(s.words[followersOf(last)], last+6000)
	for i := range hashes {
		hashes[i] = hash(hashes[i], uint32(7919*i))
	}
	return hashes
}

// expectation returns the byte that the first existing match predicts, with a leading 1 bit before
// its eight bits, and the class of the match. Without a match, expectation returns 0, 0.
func (s *State) expectation() (expected, class int) {
	for m := range s.place.Matches {
		if expected := s.expected(m); expected != 0 {
			return expected, s.place.Matches[m].class()
		}
	}
	return 0, 0
}

// lower returns the hash that finds a context's bucket for the lower four bits of a byte, given the
// higher four bits.
func lower(context uint32, higher int) uint32 { return context + uint32(higher+1)*0x3c6ef372 }

// nodeInHalf returns the index of a node, from 1 to 15, in the bucket for its half of the byte.
func nodeInHalf(node int) int {
	switch {
	case node < 16:
		return node
	case node < 32:
		return 1
	case node < 64:
		return 2 | node&1
	case node < 128:
		return 4 | node&3
	}
	return 8 | node&7
}
