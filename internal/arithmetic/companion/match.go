package companion

// A match is an earlier offset in the text, where the preceding bytes equal the newest bytes. The
// match predicts the byte at its offset. A match continues after up to matchMisses wrong
// predictions, because records often differ in one field only.
type match struct {
	At     uint32 // offset of the predicted byte; 0 means no match
	Length uint32 // number of equal bytes since the last wrong prediction, at most matchMost
	Misses uint32 // number of wrong predictions; matchHealed correct predictions reset Misses
}

const (
	matchMisses = 4
	matchHealed = 16
	matchMost   = 64

	agreedClasses = 22 // number of classes for matches without a wrong prediction
	// Matches with one wrong prediction have 16 classes, and matches with several have 16 others.
	differClasses = 16
	matchClasses  = 22 + 2*differClasses
)

// matchLeast is the number of equal bytes that each of the two matches needs to begin.
var matchLeast = [matchCount]int{8, 20}

const matchCount = 2

// class returns a number above 0 that depends on the match's length and wrong predictions. Without
// a match, class returns 0.
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

func (m *match) weak(least int) bool {
	return m.Length == 0 || m.Misses > 0 && int(m.Length) < least
}

// reachable reports whether the stored end of the text contains the byte at an offset and enough
// earlier bytes to verify a match.
func reachable(at uint32, bytes uint64) bool {
	back := uint32(bytes) - at
	return back > 0 && back <= textBytes-matchMost && uint64(back) < bytes
}
