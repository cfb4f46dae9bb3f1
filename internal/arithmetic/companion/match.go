package companion

// A match is an earlier offset of the text whose preceding bytes equal the last bytes. If the match
// predicts a wrong byte, it skips that byte and continues, for a few such bytes. This helps in
// records, where often only one field differs.
type match struct {
	At     uint32 // offset of the byte that the match predicts; 0 if there is no match
	Length uint32 // number of bytes predicted correctly since the last wrong one
	Misses uint32 // number of wrong predictions; reset after matchHealed correct ones
}

const (
	matchMisses = 4  // maximum of Misses
	matchHealed = 16 // number of correct predictions in a row that reset Misses
	matchMost   = 64 // maximum of Length

	agreedClasses = 22 // number of classes for matches without a wrong prediction
	differClasses = 16 // number of classes for one wrong prediction, and again for several
	matchClasses  = 22 + 2*differClasses
)

// matchLeast has, for each of the two matches, the minimum number of equal bytes to begin it.
var matchLeast = [matchCount]int{8, 20}

const matchCount = 2

// class returns the class of the match, from 1 on, which depends on its length and its wrong
// predictions. Without a match, class returns 0.
func (m *match) class() int {
	length := int(m.Length)
	switch {
	case m.At == 0:
		return 0
	case m.Misses > 0:
		return agreedClasses + min(length, differClasses-1) + differClasses*min(int(m.Misses)-1, 1)
	case length < 16:
		return length
	case length < 32:
		return 16 + (length-16)/4
	case length < matchMost:
		return 20
	}
	return agreedClasses - 1
}

// follow advances the match by a byte. The parameter agrees is true if the match predicted that
// byte.
func (m *match) follow(agrees bool) {
	if m.At == 0 {
		return
	}
	m.At++
	switch {
	case m.At == 0 || !agrees && m.Misses == matchMisses:
		*m = match{}
	case !agrees:
		m.Misses++
		m.Length = 0
	default:
		if m.Length = min(m.Length+1, matchMost); m.Length >= matchHealed {
			m.Misses = 0
		}
	}
}

// weak reports whether a new match should replace the current one.
func (m *match) weak(least int) bool {
	return m.Length == 0 || m.Misses > 0 && int(m.Length) < least
}

// reachable reports whether the stored end of the text contains the byte at an offset and enough
// earlier bytes to verify a match.
func reachable(at uint32, bytes uint64) bool {
	back := uint32(bytes) - at
	return back > 0 && back <= textBytes-matchMost && uint64(back) < bytes
}
