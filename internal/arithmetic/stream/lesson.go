package stream

import (
	"bytes"
	"slices"
)

// Lesson says how a stream learns from a text. With the zero value, the stream learns all tokens of
// a chunk once the chunk is full.
//
// A stream that learns by lines decides at a line's newline whether to learn the line. It learns no
// token of a skipped line. Chunk borders, the order of updates and the memory stay the same. A
// chunk's update uses the loss of its learned tokens only. Each learned token weighs as much as in
// a chunk whose tokens are all learned. Two rules keep skipped lines out of the weights:
//
//   - At the end of a chunk, the gradient of an open line is carried. If the line is learned, the
//     gradient joins the update of the chunk in which the line ends. If the line is skipped, the
//     gradient is dropped. Lines over HeldMax bytes are never learned, so a gradient is carried for
//     a bounded time.
//   - A chunk without learned tokens makes no update, and fast weights do not decay.
//
// A skipped line stays in the memory of the Transformer-XL: the memory contains the last MemLen
// tokens, learned or skipped. Without the skipped line, the next line would be scored in a context
// that never existed.
type Lesson struct {
	ByLine bool
	// Skipped lists the lines that are not learned, in ascending order. Line n ends at the n-th
	// newline of the text, counted from 0.
	Skipped []uint16
	// drawn says that the text is a token sampled from a frozen stream. Counts and cache do not
	// learn the token. Otherwise completions would raise their own probability.
	drawn bool
}

// From returns the lesson for text[at:].
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

// Until returns the lesson for text[:at].
func (l Lesson) Until(text []byte, at int) Lesson {
	ends := newlines(text[:at])
	before := func(n uint16, ends int) int { return int(n) - ends }
	k, _ := slices.BinarySearchFunc(l.Skipped, ends, before)
	return Lesson{ByLine: l.ByLine, Skipped: l.Skipped[:k]}
}

func newlines(text []byte) int { return bytes.Count(text, []byte{'\n'}) }

// LearnsByLine reports whether a method can learn by lines. Only Cache cannot. The other methods
// learn from gradients, whose sums can omit skipped tokens, or do not learn.
func LearnsByLine(method string) bool { return method != Cache }
