package suggest

import "slices"

// end is the end of a text that may become a candidate. With free ends, a text may begin with the
// text of another end.
type end struct {
	open
	above     int // index of the longest end whose text is a beginning of this text, or none
	gain      float64
	separator string

	chosen bool
	have   float64 // gain of the longest chosen end whose text is a beginning of this text
	beyond float64 // probability of chosen ends whose texts begin with this text
}

const none = -1

// saves returns how many keystrokes this end, if chosen, adds to the mean saving. Where a longer
// chosen end is right, this end adds nothing, so its probability is subtracted. What a shorter
// chosen end already saves is subtracted from the gain.
func (e *end) saves() float64 { return (e.p - e.beyond) * (e.gain - e.have) }

// savesLeast is the minimum mean number of keystrokes that a candidate must add.
const savesLeast = 0.01

// choose chooses the candidates greedily: each time, it takes the end that adds most to the mean
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

// take chooses an end, and updates the savings of the other ends.
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

// text returns the text that leads from the root to a prefix, followed by byte b.
func (t *Tree) text(root, parent int32, b byte) string {
	text := []byte{b}
	for id := parent; id != root; id = t.nodes[id].parent {
		text = append(text, t.nodes[id].b)
	}
	slices.Reverse(text)
	return string(text)
}
