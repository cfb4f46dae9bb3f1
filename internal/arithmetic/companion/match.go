package companion

// A match is a place of the text from which on it went as it goes now. After a byte that differs it
// goes on behind that byte, a few times: in records one field differs and the rest is the same.
type match struct {
	At     uint32 // of the byte that is expected next; 0: there is no match
	Length uint32 // bytes that agreed since the match began, or since the last that differed
	Misses uint32 // bytes that differed, until many have agreed again
}

const (
	matchMisses = 4  // so many bytes may differ
	matchHealed = 16 // after so many bytes none counts as different any more
	matchMost   = 64 // longer matches are all alike

	agreedClasses = 22 // of matches of which no byte differed
	differClasses = 16 // of matches after a byte that differed, and as many after more
	matchClasses  = 22 + 2*differClasses
)

// matchLeast is the least number of bytes by which each of the matches is found.
var matchLeast = [matchCount]int{8, 20}

const matchCount = 2

// class is 0 without a match, and tells of its length otherwise.
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

// follow takes the match behind a byte; agrees says whether it was the one that was expected.
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

// weak reports whether a match that is found anew should take the place of this one.
func (m *match) weak(least int) bool {
	return m.Length == 0 || m.Misses > 0 && int(m.Length) < least
}

// reachable reports whether an offset is one of the last of so many bytes, and so many bytes before
// it are, too, that a match can be verified.
func reachable(at uint32, bytes uint64) bool {
	back := uint32(bytes) - at
	return back > 0 && back <= textBytes-matchMost && uint64(back) < bytes
}
