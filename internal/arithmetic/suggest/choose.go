package suggest

import "slices"

// end is a possible candidate. Free ends may begin with other ends.
type end struct {
	open
	above     int // the longest end that is a beginning of this one
	gain      float64
	separator string

	chosen bool
	have   float64 // the gain of the longest chosen end that is a beginning of this one
	beyond float64 // the probability of the shortest chosen ends that begin with this one
}

const none = -1

// saves returns how many keystrokes the end would add to the mean saving of the chosen ends. Its
// probability counts without that of longer chosen ends. Its gain counts without that of the
// longest chosen end with which it begins.
func (e *end) saves() float64 { return (e.p - e.beyond) * (e.gain - e.have) }

// savesLeast is the minimum mean number of keystrokes that a candidate must add.
const savesLeast = 0.01

// choose chooses the candidates greedily: each time the end that adds most.
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

// take chooses an end.
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

// text returns the text between the root and byte b behind a prefix.
func (t *Tree) text(root, parent int32, b byte) string {
	text := []byte{b}
	for id := parent; id != root; id = t.nodes[id].parent {
		text = append(text, t.nodes[id].b)
	}
	slices.Reverse(text)
	return string(text)
}
