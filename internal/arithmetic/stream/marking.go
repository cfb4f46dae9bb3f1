package stream

import (
	"fmt"

	"github.com/lmserve/lmserve/internal/arithmetic/companion"
	"github.com/lmserve/lmserve/internal/arithmetic/model"
)

// HeldMax is the maximum size, in bytes, of a line that is learned by lines.
const HeldMax = 16 << 10

// HeldBytes returns the bytes of memory that learning by lines adds to a stream.
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

// heldSize returns the number of elements of a carried gradient.
func heldSize(m *model.Model, set Settings) int {
	switch set.Method {
	case SparseMeta:
		return m.ArenaSize()
	case DynamicSGD, DynamicRMS:
		return m.LM.Layout.Size
	}
	return 0
}

// Marks of pending tokens, as snapshots store them.
const (
	tokenLearnt  = iota
	tokenSkipped // it is not learned
	tokenOpen    // its line is open
)

// States of the carried gradient, as snapshots store them.
const (
	carriesNothing = iota
	carriesOpen    // of the open line
	carriesDue     // of a line that has ended; part of the chunk's update
)

// Indexes of the numbers of an open line.
const (
	lineBytes   = iota // bytes learned by lines; at most HeldMax+1
	lineCarries        // state of the carried gradient
	lineCached         // positions of the cache that belong to the line

	lineNumbers = lineCached // in a stream without a cache
)

// held is the state of a stream that learns by lines.
type held struct {
	marking
	gradient []float32 // carried gradient of the weights that the method writes
	// companion is the companion's state at the beginning of the open line, or where learning by
	// lines began in it. It is nil in a stream without a companion, and undefined without an open
	// line.
	companion *companion.State
}

// marking says which tokens are learned.
type marking struct {
	marks []int32  // of the pending tokens
	line  [3]int32 // of the open line, see lineBytes
}

// take appends marks for a number of tokens.
func (m *marking) take(tokens int, mark int32) {
	for range tokens {
		m.marks = append(m.marks, mark)
	}
}

// decide sets the marks of the open line's tokens and the state of its gradient.
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

// marked appends a chunk's targets to dst, with -1 for each target that has another mark. any
// reports whether a target has the mark.
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

// trailing returns how many marks at the end equal mark.
func trailing(marks []int32, mark int32) (n int) {
	for n < len(marks) && marks[len(marks)-1-n] == mark {
		n++
	}
	return n
}

// check returns an error if the numbers contradict each other. carries says whether there is a
// gradient. words says that tokens are words; a line then has fewer tokens than bytes.
func (h *held) check(carries, words bool) error {
	c, under := h.line[lineCarries], int(h.line[lineBytes])
	if c > carriesDue || carries != (c != carriesNothing) {
		return fmt.Errorf("tensor %q, element %d is %d, expected 0 without tensor %q and 1 to %d "+
			"with it", tensorHeld, lineCarries, c, tensorCarried, carriesDue)
	}
	if c == carriesOpen && (under <= len(h.marks) || under > HeldMax) {
		return fmt.Errorf(
			"tensor %q, element %d is %d, expected more than %d, the pending tokens, "+
				"and at most %d, because a gradient of the unfinished line is "+
				"carried", tensorHeld,
			lineBytes,
			under, len(h.marks), HeldMax)
	}
	open := min(under, len(h.marks)) // the open line is at the end
	if under > HeldMax {
		open = 0 // the line is too long to be learned
	}
	if words && c != carriesOpen {
		open = min(open, trailing(h.marks, tokenOpen))
	}
	for i, mark := range h.marks {
		if opens := i >= len(h.marks)-open; opens != (mark == tokenOpen) {
			return fmt.Errorf(
				"tensor %q, element %d is %d, expected %d for exactly the last %d tokens, "+
					"which belong to the unfinished line", tensorMarks, i, mark, tokenOpen, open)
		}
	}
	return nil
}

// cacheRoom is the number of open positions that a cache has room for. A line of HeldMax bytes
// has at most HeldMax/2 words of one byte with a separator each; the ends of two lines are added.
const cacheRoom = HeldMax/2 + 2
