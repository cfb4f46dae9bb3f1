package companion

// A bit history summarizes the bits seen at a node of a context: the counts of zeros and ones, and
// the last bit if both occurred. If one count is large, the other can only be small. So there are
// at most 256 histories, and each history has a number of one byte. History 0 is empty.
type history struct{ zeros, ones, last uint8 }

const historyCount = 235

// histories lists all bit histories by number. nextHistory contains, for each history, the numbers
// of the two histories that follow after a 0 and after a 1.
var histories, nextHistory = makeHistories()

func allowed(zeros, ones uint8) bool {
	larger := [...]uint8{40, 24, 10, 6, 6, 5}
	few := min(zeros, ones)
	return int(few) < len(larger) && max(zeros, ones) <= larger[few]
}

// makeHistories numbers all histories by the sum of their counts.
func makeHistories() (all [historyCount]history, next [historyCount][2]uint8) {
	number, n := map[history]uint8{}, 0
	add := func(h history) {
		all[n], number[h] = h, uint8(n)
		n++
	}
	for sum := uint8(0); n < historyCount; sum++ {
		for zeros := uint8(0); zeros <= sum; zeros++ {
			ones := sum - zeros
			if !allowed(zeros, ones) {
				continue
			}
			add(history{zeros, ones, 0})
			if zeros > 0 && ones > 0 {
				add(history{zeros, ones, 1})
			}
		}
	}
	for i, h := range all {
		next[i] = [2]uint8{number[h.after(0)], number[h.after(1)]}
	}
	return all, next
}

// after returns the history after one more bit. The count of the opposite bit shrinks, because
// recent bits predict best. A large count shrinks faster.
func (h history) after(bit uint8) history {
	n := [2]uint8{h.zeros, h.ones}
	same, other := &n[bit], &n[1-bit]
	switch {
	case *other > 12:
		*other = 5
	case *other > 5:
		*other = 4
	case *other > 2:
		*other = (*other + 3) / 2
	}
	*same++
	for !allowed(n[0], n[1]) {
		if *same > *other {
			*same--
		} else {
			*other--
		}
	}
	if *other == 0 {
		bit = 0 // the field last is 0 if all bits of a history are equal
	}
	return history{n[0], n[1], bit}
}

func (h history) seen() int { return int(h.zeros) + int(h.ones) }
