package companion

// A match is an earlier offset of the text whose last bytes equal the present ones. After a byte
// that differs, the match skips that byte and continues, a few times. In records, often only one
// field differs.
type match struct {
	At     uint32 // offset of the byte that the match expects next; 0: no match
	Length uint32 // bytes that agreed since the match began or since the last difference
	Misses uint32 // bytes that differed; 0 again after matchHealed equal bytes
}

const (
	matchMisses = 4  // maximum of Misses
	matchHealed = 16 // equal bytes after which Misses is 0 again
	matchMost   = 64 // maximum of Length

	agreedClasses = 22 // number of classes of matches without a difference
	differClasses = 16 // number of classes after one difference, and again after more
	matchClasses  = 22 + 2*differClasses
)

// matchLeast has, for each of the two matches, the number of equal bytes with which it begins.
var matchLeast = [matchCount]int{8, 20}

const matchCount = 2

// class returns a class of the match's length and differences, from 1 on. Without a match it
// returns 0.
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

// follow advances the match by a byte. agrees says whether the match expected that byte.
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

// weak reports whether a new match should replace this one.
func (m *match) weak(least int) bool {
	return m.Length == 0 || m.Misses > 0 && int(m.Length) < least
}

// reachable reports whether the text still holds the byte at an offset, and enough bytes before
// it to verify a match.
func reachable(at uint32, bytes uint64) bool {
	back := uint32(bytes) - at
	return back > 0 && back <= textBytes-matchMost && uint64(back) < bytes
}
