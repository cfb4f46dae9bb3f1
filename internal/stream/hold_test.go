package stream

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lmserve/lmserve/internal/model/modeltest"
)

// feedAs feeds text of any length that is learnt in some way.
func feedAs(w *Worker, s *Stream, text string, how Lesson) {
	for at := 0; at < len(text); {
		n := min(len(text)-at, s.Room())
		rest := how.From([]byte(text), at)
		part := []byte(text[at : at+n])
		w.FeedAs(s, part, rest.Until(part, n))
		at += n
	}
}

// gradientMethods are those that learn from gradients.
var gradientMethods = []string{SparseMeta, DynamicSGD, DynamicRMS}

func heldStream(t require.TestingT, method string) (*Worker, *Stream) {
	m, err := modeltest.Small()
	require.NoError(t, err)
	set := DefaultsFor(m, method)
	set.Seed = 3
	return NewWorker(m, 2), New(m, set)
}

// another is a stream of no text like s.
func another(s *Stream) *Stream { return New(s.model, s.Settings) }

const chunk = modeltest.Chunk

func line(bytes int, with string) string { return strings.Repeat(with, bytes-1) + "\n" }

// Lines that end where chunks do are learnt as any text is, to the bit.
func TestByLinesALineThatEndsInItsChunkIsLearntAsEver(t *testing.T) {
	text := line(chunk, "a") + line(chunk/2, "b") + line(chunk/2, "c") + line(chunk, "a")
	for _, method := range gradientMethods {
		w, byLine := heldStream(t, method)
		defer w.Close()
		usual := another(byLine)
		feedAs(w, byLine, text, Lesson{ByLine: true})
		feedAs(w, usual, text, Lesson{})
		require.NotZero(t, usual.FastRMS())
		require.Equal(t, usual.FastRMS(), byLine.FastRMS())
		require.Equal(t, usual.Tally, byLine.Tally)
	}
}

// Of a line that is skipped nothing is learnt, wherever the borders of chunks are in it.
func TestByLinesASkippedLineMovesNoWeight(t *testing.T) {
	for _, method := range gradientMethods {
		w, s := heldStream(t, method)
		defer w.Close()
		feedAs(w, s, line(2*chunk, "a"), Lesson{ByLine: true})
		learnt := s.FastRMS()
		require.NotZero(t, learnt)
		feedAs(w, s, line(chunk/2, "x")+line(3*chunk, "y")+line(chunk/2, "z"),
			Lesson{ByLine: true, Skipped: []uint16{0, 1, 2}})
		require.Equal(t, learnt, s.FastRMS())
		require.EqualValues(t, 6, s.Step)
		require.Zero(t, s.Written)
		feedAs(w, s, line(chunk, "a"), Lesson{ByLine: true})
		require.NotEqual(t, learnt, s.FastRMS())
	}
}

// The gradient of a line's first chunks waits for the line's end, and is learnt then.
func TestByLinesALineOfSeveralChunksIsLearntAtItsEnd(t *testing.T) {
	for _, method := range gradientMethods {
		w, s := heldStream(t, method)
		defer w.Close()
		short := another(s)
		text := line(3*chunk, "a")
		feedAs(w, s, text[:2*chunk], Lesson{ByLine: true})
		require.Zero(t, s.FastRMS())
		feedAs(w, s, text[2*chunk:], Lesson{ByLine: true})
		require.NotZero(t, s.FastRMS())
		feedAs(w, short, text[:len(text)-1], Lesson{ByLine: true})
		feedAs(w, short, "\n", Lesson{})
		require.Equal(t, s.FastRMS(), short.FastRMS(), "a text that is learnt decides on what waits")
	}
}

func TestByLinesTooLongALineIsNotLearnt(t *testing.T) {
	w, s := heldStream(t, DynamicSGD)
	defer w.Close()
	feedAs(w, s, line(HeldMax+chunk, "a"), Lesson{ByLine: true})
	require.Zero(t, s.FastRMS())
	require.Equal(t, int32(carriesNothing), s.held.line[lineCarries])
	feedAs(w, s, line(chunk, "b"), Lesson{ByLine: true})
	require.NotZero(t, s.FastRMS())
}

// The pieces in which a text comes change no bit, nor does a restoring on the way.
func TestByLinesAStreamIsAFunctionOfItsTextAndLessons(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, whole := heldStream(t, rapid.SampledFrom(append(gradientMethods, Static)).Draw(t, "method"))
		defer w.Close()
		var text string
		how := Lesson{ByLine: true}
		for n := range rapid.IntRange(1, 8).Draw(t, "lines") {
			text += line(rapid.IntRange(1, 3*chunk).Draw(t, "bytes"), string(rune('a'+n)))
			if rapid.Bool().Draw(t, "skipped") {
				how.Skipped = append(how.Skipped, uint16(n))
			}
		}
		feedAs(w, whole, text, how)
		pieces := another(whole)
		for at := 0; at < len(text); {
			n := rapid.IntRange(1, min(len(text)-at, 2*chunk)).Draw(t, "piece")
			rest := how.From([]byte(text), at)
			part := text[at : at+n]
			feedAs(w, pieces, part, rest.Until([]byte(part), n))
			at += n
			if rapid.IntRange(0, 3).Draw(t, "restored") == 0 {
				f, err := pieces.Snapshot()
				require.NoError(t, err)
				was := pieces.Hash()
				pieces, _, err = Restore(pieces.model, pieces.Settings, f.Stored())
				require.NoError(t, err)
				require.Equal(t, was, pieces.Hash())
			}
		}
		require.Equal(t, whole.Hash(), pieces.Hash())
	})
}
