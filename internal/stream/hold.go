package stream

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/lmserve/lmserve/internal/companion"
	"github.com/lmserve/lmserve/internal/model"
)

// Lesson says how a stream learns from a text. The zero value is the usual way: from each token,
// when its chunk is full.
//
// By lines, a stream learns from a line only if its newline says so, and from none of the tokens of
// a line that is skipped. The chunk's borders, the order of updates and the stream's memory are as
// ever: a chunk's update is from the loss of its tokens that are learnt, each weighing what it
// would weigh in a chunk that is learnt whole. Two things make it so that a skipped line shapes no
// weight:
//
//   - The tokens of a line that is under way at the end of a chunk are not decided on. Their
//     gradient is carried, and belongs to the update of the chunk in which the line ends; it is
//     dropped if the line is skipped. Of a line over HeldMax bytes nothing is learnt, so that the
//     wait has an end.
//   - A chunk of which nothing is learnt makes no update: what there is does not fade.
//
// A skipped line stays in the memory of the Transformer-XL, which holds what was read, not what was
// learnt: without it, the line after it would be scored in a context that never was. It is
// forgotten there when the memory has moved on.
type Lesson struct {
	ByLine bool
	// Skipped are the lines that are not learnt, by the newlines of the text, counted from 0, in
	// ascending order.
	Skipped []uint16
}

// HeldMax is the largest number of bytes of a line that is learnt by lines.
const HeldMax = 4096

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

// LearnsByLine reports whether a method can learn by lines: by updates from gradients, or not at
// all. A cache is no sum, from which a part can be left out.
func LearnsByLine(method string) bool { return method != Cache }

// From is the lesson of the part of a text from a byte on.
func (l Lesson) From(text []byte, at int) Lesson {
	before := newlines(text[:at])
	part := Lesson{ByLine: l.ByLine}
	for _, n := range l.Skipped {
		if int(n) >= before {
			part.Skipped = append(part.Skipped, n-uint16(before))
		}
	}
	return part
}

// Until is the lesson of the part of a text before a byte.
func (l Lesson) Until(text []byte, at int) Lesson {
	ends := newlines(text[:at])
	before := func(n uint16, ends int) int { return int(n) - ends }
	k, _ := slices.BinarySearchFunc(l.Skipped, ends, before)
	return Lesson{l.ByLine, l.Skipped[:k]}
}

func newlines(text []byte) int { return bytes.Count(text, []byte{'\n'}) }

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

// held is what a stream keeps that learns by lines.
type held struct {
	marking
	gradient []float32 // carried: of the weights that the method writes
	// companion is the stream's companion where the line under way came to be learnt by lines, while
	// there is one; nil in a stream without a companion.
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

// The numbers of a line under way.
const (
	lineBytes   = iota // those that came to be learnt by lines; HeldMax+1 at most
	lineCarries        // what becomes of the carried gradient
	lineCached         // positions of the cache that are its tokens'

	lineNumbers = lineCached // in a stream without a cache
)

// check reports numbers that do not go together. carries says whether there is a gradient, and
// words that the tokens are words, of which a line has fewer than bytes.
func (h *held) check(carries, words bool) error {
	c, under := h.line[lineCarries], int(h.line[lineBytes])
	if c > carriesDue || carries != (c != carriesNothing) {
		return fmt.Errorf("tensor %q, element %d is %d, expected 0 without tensor %q and 1 to %d "+
			"with it", tensorHeld, lineCarries, c, tensorCarried, carriesDue)
	}
	if c == carriesOpen && (under <= len(h.marks) || under > HeldMax) {
		return fmt.Errorf("tensor %q, element %d is %d, expected more than %d, the pending tokens, "+
			"and at most %d, as a gradient of the line under way is carried", tensorHeld, lineBytes,
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
			return fmt.Errorf("tensor %q, element %d is %d, expected %d for the last %d and only for "+
				"these, the line under way", tensorMarks, i, mark, tokenOpen, open)
		}
	}
	return nil
}

// checkHeld reports numbers of what is held that do not fit the stream. carries says whether there
// is a carried gradient.
func (s *Stream) checkHeld(carries bool) error {
	if s.Cache == nil {
		return s.held.check(carries, s.OfWords())
	}
	open, under := int(s.held.line[lineCached]), int(s.held.line[lineBytes])
	most := min(s.Cache.Len, cacheRoom)
	if under == 0 || under > HeldMax {
		most = 0
	}
	if open > most {
		return fmt.Errorf("tensor %q, element %d is %d, expected 0 to %d", tensorHeld, lineCached,
			open, most)
	}
	whole := int64(s.Step) * int64(s.Settings.Chunk)
	if n := int64(min(s.Settings.Cache.Size+open, int(whole))); int64(s.Cache.Len) > n {
		return fmt.Errorf("tensor %q has %d elements, expected at most %d", tensorNext, s.Cache.Len, n)
	}
	return s.held.check(carries, s.OfWords())
}

// lineNumbers are the numbers of the line under way that the stream has.
func (s *Stream) lineNumbers() []int32 {
	if s.Cache == nil {
		return s.held.line[:lineNumbers]
	}
	return s.held.line[:]
}

// trailing is how many marks at the end are of a kind.
func trailing(marks []int32, mark int32) (n int) {
	for n < len(marks) && marks[len(marks)-1-n] == mark {
		n++
	}
	return n
}

// holdLines makes room for learning by lines. What is pending is learnt.
func (s *Stream) holdLines() {
	if s.held == nil {
		s.held = &held{
			marking:  marking{marks: make([]int32, len(s.Pending), s.Settings.Chunk)},
			gradient: make([]float32, heldSize(s.model, s.Settings)),
		}
		if s.Companion != nil {
			s.held.companion = s.Companion.Clone()
		}
		if s.Cache != nil {
			s.Cache.Reserve(cacheRoom)
		}
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
