package stream

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lmserve/lmserve/internal/arithmetic/lines"
	"github.com/lmserve/lmserve/internal/arithmetic/model/modeltest"
	"github.com/lmserve/lmserve/weights"
)

func feedAs(w *Worker, s *Stream, text string, how Lesson) {
	for at := 0; at < len(text); {
		n := min(len(text)-at, s.Room())
		rest := how.From([]byte(text), at)
		part := []byte(text[at : at+n])
		// at most n bytes; fewer if the fast weights diverge
		at += w.FeedAs(s, part, rest.Until(part, n))
	}
}

var gradientMethods = []string{SparseMeta, DynamicSGD, DynamicRMS}

func heldStream(t require.TestingT, method string) (*Worker, *Stream) {
	m, err := modeltest.Small()
	require.NoError(t, err)
	set := DefaultsFor(m, method)
	set.Seed = 3
	return NewWorker(m, 2), New(m, set)
}

func another(s *Stream) *Stream { return New(s.model, s.Settings) }

const chunk = modeltest.Chunk

func line(bytes int, with string) string { return strings.Repeat(with, bytes-1) + "\n" }

// If no line crosses a chunk border, learning by lines gives bit-identical results to learning by
// chunks.
func TestByLinesLineWithinItsChunkIsLearnedAsEver(t *testing.T) {
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

func TestByLinesLineOfSeveralChunksIsLearnedAtItsEnd(t *testing.T) {
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
		require.Equal(t, s.FastRMS(), short.FastRMS(),
			"a text that is learnt decides on what waits")
	}
}

func TestByLinesOverlongLineIsNotLearned(t *testing.T) {
	w, s := heldStream(t, DynamicSGD)
	defer w.Close()
	feedAs(w, s, line(HeldMax+chunk, "a"), Lesson{ByLine: true})
	require.Zero(t, s.FastRMS())
	require.Equal(t, int32(carriesNothing), s.held.line[lineCarries])
	feedAs(w, s, line(chunk, "b"), Lesson{ByLine: true})
	require.NotZero(t, s.FastRMS())
}

func TestByLinesAStreamIsAFunctionOfItsTextAndLessons(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, whole := heldStream(t, rapid.SampledFrom(append(gradientMethods, Static)).Draw(t,
			"method"))
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

// heldSnapshot returns a stream that learns by lines, and its snapshot. The open line began in the
// previous chunk.
func heldSnapshot(t require.TestingT, method string) (*Stream, *weights.File) {
	w, s := heldStream(t, method)
	defer w.Close()
	s.WatchLines(0)
	feedAs(w, s, line(chunk, "a")+line(chunk, "b")+strings.Repeat("c", chunk+5),
		Lesson{ByLine: true, Skipped: []uint16{1}})
	f, err := s.Snapshot()
	require.NoError(t, err)
	return s, f
}

func TestMisfitSnapshotOfLinesIsRefusedWithItsPlace(t *testing.T) {
	number := func(name string, element, value int) func(*weights.File) {
		return tensor(name, func(t *weights.Tensor) {
			binary.LittleEndian.PutUint32(t.Data[4*element:], uint32(value))
		})
	}
	drop := func(name string) func(*weights.File) {
		return func(f *weights.File) {
			is := func(t weights.Tensor) bool { return t.Name == name }
			f.Tensors = slices.DeleteFunc(f.Tensors, is)
		}
	}
	short := tensor(tensorCarried, func(t *weights.Tensor) { t.Shape = []int{len(t.Data)/4 - 1} })
	for _, c := range []struct {
		method, says string
		spoil        func(*weights.File)
	}{
		{SparseMeta, `"held.line", element 0 is token 16386, expected 0 to 16385`,
			number(tensorHeld, lineBytes, HeldMax+2)},
		{SparseMeta, `"held.line", element 0 is token -1`, number(tensorHeld, lineBytes, -1)},
		{SparseMeta, `"held.line", element 0 is 5, expected more than 5`,
			number(tensorHeld, lineBytes, 5)},
		{SparseMeta, `"held.line", element 0 is 16385, expected more than 5 (the number of ` +
			"pending tokens) and at most 16384", number(tensorHeld, lineBytes, HeldMax+1)},
		{SparseMeta, `"held.line", element 1 is 3, expected 0 without`,
			number(tensorHeld, lineCarries, 3)},
		{SparseMeta, `is 1, expected 0 without tensor "held.gradient"`, drop(tensorCarried)},
		{SparseMeta, `"held.gradient" has type and shape F32[`, short},
		{SparseMeta, `"held.marks" is missing, expected it with type and shape I32[5]`,
			drop(tensorMarks)},
		{SparseMeta, `"held.marks", element 4 is token 3`, number(tensorMarks, 4, 3)},
		{SparseMeta, `"held.marks", element 2 is 1, expected the value 2 for exactly the last 5`,
			number(tensorMarks, 2, 1)},
		{SparseMeta, "does not belong to a stream", drop(tensorHeld)},
		{DynamicSGD, `is 1, expected 0 without tensor "held.gradient"`, drop(tensorCarried)},
		{DynamicRMS, `"held.line", element 1 is 0, expected 0 without`,
			number(tensorHeld, lineCarries, 0)},
		{Static, `"held.line", element 1 is 1, expected 0 without`, number(tensorHeld, lineCarries,
			1)},
		{Static, `"held.marks", element 0 is 2, expected the value 2 for exactly the last 4`,
			number(tensorHeld, lineBytes, 4)},
		{Static, `"lines" has type and shape I32`, tensor(tensorLines, func(t *weights.Tensor) {
			t.DType, t.Data, t.Shape = weights.I32, t.Data[:8], []int{2}
		})},
		{Static, "not the state of a line meter", tensor(tensorLines, func(t *weights.Tensor) {
			t.Data[0] =
				9
		})},
		{Static, "the line meter's state covers more text than the stream has read",
			tensor(tensorLines, func(t *weights.Tensor) {
				t.Data[1+8] = 200
			})},
	} {
		s, f := heldSnapshot(t, c.method)
		f.Tensors = slices.Clone(f.Tensors)
		_, _, err := Restore(s.model, s.Settings, f.Stored())
		require.NoError(t, err)
		c.spoil(f)
		_, _, err = Restore(s.model, s.Settings, f.Stored())
		require.ErrorContains(t, err, c.says)
		require.ErrorContains(t, err, "stream: snapshot: ")
	}
}

// A stream of method Cache learns all text, so Restore refuses a snapshot that contains state of
// learning by lines.
func TestCacheDoesNotLearnByLines(t *testing.T) {
	w, s := heldStream(t, Cache)
	defer w.Close()
	f, err := s.Snapshot()
	require.NoError(t, err)
	_, static := heldSnapshot(t, Static)
	held := func(t weights.Tensor) bool { return !strings.HasPrefix(t.Name, "held.") }
	f.Tensors = append(f.Tensors, slices.DeleteFunc(slices.Clone(static.Tensors), held)...)
	_, _, err = Restore(s.model, s.Settings, f.Stored())
	require.ErrorContains(t, err, `"held.line" does not belong to a stream with these settings`)
}

// The server's own snapshots may carry a non-finite gradient, so Restore accepts it. Finite refuses
// it in imported snapshots.
func TestNonFiniteCarriedGradientIsRefused(t *testing.T) {
	s, f := heldSnapshot(t, DynamicSGD)
	spoil := tensor(tensorCarried, func(t *weights.Tensor) { *t = notANumber(*t) })
	spoil(f)
	again, _, err := Restore(s.model, s.Settings, f.Stored())
	require.NoError(t, err)
	require.NoError(t, s.Finite())
	require.ErrorContains(t, again.Finite(), `"held.gradient", element 0 is NaN`)
}

func TestByLinesAWarmChunkAllocatesNothing(t *testing.T) {
	for _, method := range gradientMethods {
		w, s := heldStream(t, method)
		defer w.Close()
		s.WatchLines(0)
		text := []byte(line(chunk/2, "a") + strings.Repeat("b", chunk/2+chunk-1) + "\n")
		how, each := Lesson{ByLine: true, Skipped: []uint16{0}}, func(*lines.Line) {}
		first, second := how.Until(text, chunk), how.From(text, chunk)
		feed := func(text []byte, how Lesson) {
			scores := w.ScoreAs(s, text, how)
			w.CommitLines(s, scores, each)
			w.Settle(s)
		}
		warm := func() { feed(text[:chunk], first); feed(text[chunk:], second) }
		for range 5 {
			warm()
		}
		require.Zero(t, testing.AllocsPerRun(20, warm), method)
	}
}

func TestMemoryOfLinesIsReserved(t *testing.T) {
	for _, method := range append(gradientMethods, Static) {
		w, s := heldStream(t, method)
		defer w.Close()
		s.WatchLines(0)
		bare := StateBytes(s.model, s.Settings)
		require.Equal(t, bare+LinesBytes, s.MemoryBytes())
		feedAs(w, s, line(chunk+1, "a"), Lesson{ByLine: true})
		require.Equal(t, bare+LinesBytes+HeldBytes(s.model, s.Settings), s.MemoryBytes())
	}
}
