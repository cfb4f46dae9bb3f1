package stream

import (
	"fmt"

	"github.com/lmserve/lmserve/internal/arithmetic/companion"
	"github.com/lmserve/lmserve/internal/arithmetic/model"
)

// HeldMax is the largest number of bytes of a line that is learnt by lines.
const HeldMax = 16 << 10

// HeldBytes is the memory of what a stream keeps that learns by lines.
func HeldBytes(m *model.Model, set Settings) int64 {
	bytes := 4*int64(heldSize(m, set)) + 4*int64(set.Chunk)
	if set.counts(m) {
		bytes += companion.Bytes(set.companion())
	}
	if set.caches(m) {
		bytes += 4 * cacheRoom * int64(m.LM.Config.DModel+1)
	}
	return bytes
}

// heldSize is the number of elements of a carried gradient.
func heldSize(m *model.Model, set Settings) int {
	switch set.Method {
	case SparseMeta:
		return m.ArenaSize()
	case DynamicSGD, DynamicRMS:
		return m.LM.Layout.Size
	}
	return 0
}

// What becomes of a pending token, in the numbers of a snapshot.
const (
	tokenLearnt  = iota
	tokenSkipped // it is not learnt
	tokenOpen    // its line is under way
)

// What becomes of the carried gradient, in the numbers of a snapshot.
const (
	carriesNothing = iota
	carriesOpen    // of the line under way
	carriesDue     // of a line that has ended, and belongs to the chunk's update
)

// The numbers of a line under way.
const (
	lineBytes   = iota // those that came to be learnt by lines; HeldMax+1 at most
	lineCarries        // what becomes of the carried gradient
	lineCached         // positions of the cache that are its tokens'

	lineNumbers = lineCached // in a stream without a cache
)

// held is what a stream keeps that learns by lines.
type held struct {
	marking
	gradient []float32 // carried: of the weights that the method writes
	// companion is the stream's companion where the line under way came to be learnt by lines,
	// while there is one; nil in a stream without a companion.
	companion *companion.State
}

// marking says what becomes of tokens.
type marking struct {
	marks []int32  // of the pending tokens
	line  [3]int32 // of the line under way, see lineBytes
}

// take appends the marks of so many tokens.
func (m *marking) take(tokens int, mark int32) {
	for range tokens {
		m.marks = append(m.marks, mark)
	}
}

// decide decides on the line under way, as far as it is open.
func (h *marking) decide(mark int32) {
	for i := len(h.marks) - 1; i >= 0 && h.marks[i] == tokenOpen; i-- {
		h.marks[i] = mark
	}
	switch {
	case h.line[lineCarries] != carriesOpen:
	case mark == tokenLearnt:
		h.line[lineCarries] = carriesDue
	default:
		h.line[lineCarries] = carriesNothing
	}
}

// marked writes those of a chunk's targets that have a mark to dst, and -1 for the others. any says
// whether there is one.
func (h *marking) marked(dst, targets []int32, mark int32) (all []int32, any bool) {
	for i, target := range targets {
		if h.marks[i] == mark {
			any = true
		} else {
			target = -1
		}
		dst = append(dst, target)
	}
	return dst, any
}

// trailing is how many marks at the end are of a kind.
func trailing(marks []int32, mark int32) (n int) {
	for n < len(marks) && marks[len(marks)-1-n] == mark {
		n++
	}
	return n
}

// check reports numbers that do not go together. carries says whether there is a gradient, and
// words that the tokens are words, of which a line has fewer than bytes.
func (h *held) check(carries, words bool) error {
	c, under := h.line[lineCarries], int(h.line[lineBytes])
	if c > carriesDue || carries != (c != carriesNothing) {
		return fmt.Errorf("tensor %q, element %d is %d, expected 0 without tensor %q and 1 to %d "+
			"with it", tensorHeld, lineCarries, c, tensorCarried, carriesDue)
	}
	if c == carriesOpen && (under <= len(h.marks) || under > HeldMax) {
		return fmt.Errorf(
			"tensor %q, element %d is %d, expected more than %d, the pending tokens, "+
				"and at most %d, as a gradient of the line under way is carried", tensorHeld,
			lineBytes,
			under, len(h.marks), HeldMax)
	}
	open := min(under, len(h.marks)) // the line under way is at the end
	if under > HeldMax {
		open = 0 // it is not learnt
	}
	if words && c != carriesOpen {
		open = min(open, trailing(h.marks, tokenOpen))
	}
	for i, mark := range h.marks {
		if opens := i >= len(h.marks)-open; opens != (mark == tokenOpen) {
			return fmt.Errorf(
				"tensor %q, element %d is %d, expected %d for the last %d and only for "+
					"these, the line under way", tensorMarks, i, mark, tokenOpen, open)
		}
	}
	return nil
}

// cacheRoom is how many open positions a cache has room for: the tokens of a line of HeldMax bytes,
// words of a byte with a byte behind each, and the end of the line before.
const cacheRoom = HeldMax/2 + 2
