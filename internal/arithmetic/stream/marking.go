package stream

import (
	"fmt"

	"github.com/lmserve/lmserve/internal/arithmetic/companion"
	"github.com/lmserve/lmserve/internal/arithmetic/model"
)

// HeldMax is the maximum size, in bytes, of a line that a stream can learn when it learns by lines.
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

// heldSize returns the number of elements of the gradient that a stream carries to the next chunk
// for an open line.
func heldSize(m *model.Model, set Settings) int {
	switch set.Method {
	case SparseMeta:
		return m.ArenaSize()
	case DynamicSGD, DynamicRMS:
		return m.LM.Layout.Size
	}
	return 0
}

// Marks of pending tokens, with the values that snapshots store.
const (
	tokenLearnt = iota
	tokenSkipped
	tokenOpen
)

// States of the carried gradient, with the values that snapshots store.
const (
	carriesNothing = iota
	carriesOpen    // the gradient of the open line
	carriesDue     // the gradient of an ended line, to be added to the chunk's update
)

// Indexes into marking.line, the numbers that describe the open line.
const (
	// bytes of the line since learning by lines began; HeldMax+1 if the line is too long to be
	// learned
	lineBytes = iota
	lineCarries
	lineCached // number of the line's tokens in the cache

	lineNumbers = lineCached // number of elements that a stream without a cache stores
)

// held is the state of a stream that learns by lines.
type held struct {
	marking
	gradient []float32 // gradient carried from chunk to chunk, see Lesson
	// companion is the companion's state at the beginning of the open line, or at the point within
	// the line where learning by lines began. companion is nil in a stream without a companion, and
	// undefined if no line is open.
	companion *companion.State
}

// marking records which tokens are learned.
type marking struct {
	marks []int32
	line  [3]int32 // describes the open line; for the indexes see lineBytes
}

func (m *marking) take(tokens int, mark int32) {
	for range tokens {
		m.marks = append(m.marks, mark)
	}
}

// decide sets the mark of the open line's tokens. The line's carried gradient becomes due if the
// line is learned, and is dropped otherwise.
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

// marked appends a chunk's targets to dst, with -1 for each target whose mark differs from
// parameter mark. any is true if some target has the mark.
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

func trailing(marks []int32, mark int32) (n int) {
	for n < len(marks) && marks[len(marks)-1-n] == mark {
		n++
	}
	return n
}

// check returns an error if a snapshot's numbers about the open line contradict each other.
// Parameter carries says whether the snapshot has a carried gradient. Parameter words says whether
// tokens are words: then a line may have fewer tokens than bytes, and also the last parts of the
// word before, if a chunk ended within that word.
func (h *held) check(carries, words bool) error {
	c, under := h.line[lineCarries], int(h.line[lineBytes])
	if c > carriesDue || carries != (c != carriesNothing) {
		return fmt.Errorf("tensor %q, element %d is %d, expected 0 without tensor %q; with this "+
			"tensor, expected 1 to %d", tensorHeld, lineCarries, c, tensorCarried, carriesDue)
	}
	least := len(h.marks)
	if words {
		least = 0
	}
	if c == carriesOpen && (under <= least || under > HeldMax) {
		return fmt.Errorf(
			"tensor %q, element %d is %d, expected more than %d (the number of pending tokens) "+
				"and at most %d, because the snapshot has a gradient of the unfinished "+
				"line", tensorHeld,
			lineBytes,
			under, least, HeldMax)
	}
	open := min(under, len(h.marks)) // number of marks at the end that belong to the open line
	if under > HeldMax {
		open = 0 // the line is too long to be learned
	}
	switch {
	case !words || open == 0:
	case c == carriesOpen:
		open = len(h.marks)
	default:
		open = trailing(h.marks, tokenOpen)
	}
	for i, mark := range h.marks {
		if opens := i >= len(h.marks)-open; opens != (mark == tokenOpen) {
			return fmt.Errorf(
				"tensor %q, element %d is %d, expected the value %d for exactly the last %d "+
					"tokens, the unfinished line", tensorMarks, i, mark, tokenOpen, open)
		}
	}
	return nil
}

// cacheRoom is the maximum number of an open line's tokens in a cache. A line of HeldMax bytes has
// at most HeldMax/2 words, each of one byte and a separator. The end-of-line tokens of two lines
// add two. A line whose words are cut into many parts may have more tokens; such a line is not
// learned.
const cacheRoom = HeldMax/2 + 2
