package stream

import (
	"bytes"
	"slices"
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
	// drawn says that the text is a token drawn from a frozen stream: counts and cache learn
	// nothing of it, or they would believe what they have said themselves.
	drawn bool
}

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
	return Lesson{ByLine: l.ByLine, Skipped: l.Skipped[:k]}
}

func newlines(text []byte) int { return bytes.Count(text, []byte{'\n'}) }

// LearnsByLine reports whether a method can learn by lines: by updates from gradients, or not at
// all. A cache is no sum, from which a part can be left out.
func LearnsByLine(method string) bool { return method != Cache }
