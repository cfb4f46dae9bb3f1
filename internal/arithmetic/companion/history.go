package companion

// A bit history is what is remembered of the bits that came at a node of a context: how many zeros
// and ones, and which was the last if both came. The more of one came, the fewer of the other can
// be told, so that all histories have a number of one byte: 0 is the history of nothing.
type history struct{ zeros, ones, last uint8 }

const historyCount = 235

// histories lists them by their numbers, and nextHistory the number that each has after a 0 and
// after a 1.
var histories, nextHistory = makeHistories()

// allowed reports whether two counts can be told together: of the smaller and of the larger one.
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

// after is the history with a bit more. What came against the bit fades, the sooner the more it
// was: what is recent tells most.
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
		bit = 0 // there is no last of two
	}
	return history{n[0], n[1], bit}
}

// seen is how many bits a history tells of.
func (h history) seen() int { return int(h.zeros) + int(h.ones) }
