package suggest

import "slices"

// end is a place where a candidate may end. With the unit Free, the text of one candidate may be
// the beginning of another candidate's text.
type end struct {
	open
	// above is the index of the longest other end whose text is a beginning of this text, or none.
	above     int
	gain      float64
	separator string

	chosen bool
	have   float64 // gain of the longest chosen end whose text is a beginning of this text
	beyond float64 // total probability of chosen ends whose texts begin with this text
}

const none = -1

// saves returns the mean number of keystrokes that the choice of this end saves in addition to the
// chosen ends. If a longer chosen end is right, this end adds nothing, so saves subtracts the
// probability of that case. The gain excludes what a shorter chosen end already saves.
func (e *end) saves() float64 { return (e.p - e.beyond) * (e.gain - e.have) }

// savesLeast is the minimum mean number of keystrokes that a candidate must save in addition to the
// chosen candidates.
const savesLeast = 0.01

// choose selects candidates greedily: each next candidate adds the most keystrokes to the mean
// saving.
func (s *search) choose() {
	for i := range s.ends {
		s.ends[i].p /= s.rest
	}
	for len(s.found.Candidates) < s.N {
		best, most := none, savesLeast
		for i := range s.ends {
			if e := &s.ends[i]; !e.chosen && e.p >= s.Least && e.saves() > most {
				best, most = i, e.saves()
			}
		}
		if best == none {
			return
		}
		s.take(best)
		e := &s.ends[best]
		s.found.Candidates = append(s.found.Candidates,
			Candidate{s.tree.text(s.root, e.parent, e.b), e.p, e.separator, e.gain})
	}
}

func (s *search) take(i int) {
	e := &s.ends[i]
	e.chosen = true
	for a := e.above; a != none; a = s.ends[a].above {
		s.ends[a].beyond += e.p - e.beyond
		if s.ends[a].chosen {
			break
		}
	}
	for j := range s.ends {
		for a := s.ends[j].above; a >= i; a = s.ends[a].above {
			if a == i {
				s.ends[j].have = max(s.ends[j].have, e.gain)
				break
			}
		}
	}
}

// text returns the text from the prefix root to the prefix parent, followed by byte b.
func (t *Tree) text(root, parent int32, b byte) string {
	text := []byte{b}
	for id := parent; id != root; id = t.nodes[id].parent {
		text = append(text, t.nodes[id].b)
	}
	slices.Reverse(text)
	return string(text)
}
