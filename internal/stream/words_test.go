package stream

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lmserve/lmserve/internal/lines"
	"github.com/lmserve/lmserve/internal/model"
	"github.com/lmserve/lmserve/internal/model/modeltest"
	"github.com/lmserve/lmserve/tokenizer"
	"github.com/lmserve/lmserve/txl"
)

func wordModel(t require.TestingT) *model.Model {
	m, err := modeltest.SmallOfWords()
	require.NoError(t, err)
	return m
}

// drawWordText makes a text that ends anywhere: in a word, in white space, with a line.
func drawWordText(t *rapid.T) string {
	text := modeltest.WordText(rapid.IntRange(1, 30).Draw(t, "lines"))
	if rapid.Bool().Draw(t, "long") {
		text += strings.Repeat("w", 3000) + " " + strings.Repeat(" ", 2000) + text
	}
	return text[:rapid.IntRange(0, len(text)).Draw(t, "bytes")]
}

// cutUp cuts a text at random, often in the middle of words.
func cutUp(t *rapid.T, text string) (cut []string) {
	for len(text) > 0 {
		most := rapid.SampledFrom([]int{1, 3, 40, 4000}).Draw(t, "most")
		n := min(len(text), rapid.IntRange(1, most).Draw(t, "piece"))
		cut, text = append(cut, text[:n]), text[n:]
	}
	return cut
}

// Any pieces of a text come to the same tokens, scores, lines and state.
func TestWordsDoNotDependOnThePiecesOfTheText(t *testing.T) {
	m := wordModel(t)
	one, many := testWorker(t, m, 1), testWorker(t, m, 3)
	each(t, Methods(), func(t *testing.T, method string) {
		rapid.Check(t, func(t *rapid.T) {
			set := settings(m, methodIs(method))
			set.Baseline = rapid.Bool().Draw(t, "baseline")
			whole, cut := New(m, set), New(m, set)
			watched, byLine := rapid.Bool().Draw(t, "watched"), LearnsByLine(method) && rapid.Bool().Draw(t, "by line")
			if watched {
				whole.WatchLines(0)
				cut.WatchLines(0)
			}
			feed := func(w *Worker, s *Stream, text string) (told []string) {
				note := func(l *lines.Line) {
					told = append(told, fmt.Sprint(l.Number, l.Offset, l.Bytes, l.Bits, l.P))
				}
				for rest := []byte(text); len(rest) > 0; {
					scores := w.Score(s, rest)
					rest = rest[len(scores.Text):]
					w.CommitAs(s, scores, Lesson{ByLine: byLine}, note)
					w.Settle(s)
				}
				return told
			}
			text := drawWordText(t)
			want := feed(one, whole, text)
			var got []string
			for _, piece := range cutUp(t, text) {
				got = append(got, feed(many, cut, piece)...)
				require.LessOrEqual(t, cut.MemoryBytes(), whole.MemoryBytes())
			}
			require.Equal(t, want, got)
			require.Equal(t, whole.Hash(), cut.Hash())
			require.Equal(t, whole.Tally, cut.Tally)
			require.EqualValues(t, len(text), cut.Offset())
			if len(text) > 0 {
				require.Equal(t, snapshotBytes(t, whole), snapshotBytes(t, cut))
			}
		})
	})
}

// The scores are those of the tokens that the tokenizer makes of the text, and unknown words are
// counted by themselves.
func TestWordsAreScoredAsTokens(t *testing.T) {
	m := wordModel(t)
	w := testWorker(t, m, 1)
	text := modeltest.WordText(9)
	s := New(m, settings(m, methodIs(Static)))
	var ids []int32
	var want tokenizer.Tally
	w.Feed(s, []byte(text), func(_ []byte, scores Scores) {
		ids = append(ids, scores.Tokens.IDs...)
		want.Count(scores.Tokens, m.Tokenizer.Unknown(), scores.NLL)
	})
	var tokens tokenizer.Tokens
	m.Tokenizer.Next(&tokens, new(tokenizer.Pending), []byte(text), len(text))
	require.Equal(t, tokens.IDs, ids)
	require.Equal(t, want, s.Tally)
	require.EqualValues(t, strings.Count(text, "zebra")+strings.Count(text, "xylo")+
		strings.Count(text, "cat,"), s.Tally.Unknown)
	require.EqualValues(t, len(text), s.Tally.Bytes)
	require.EqualValues(t, m.Tokenizer.Chars([]byte(text)), s.Tally.Chars)
}

// The end of a text completes its last word and its last line, wherever the chunk's border is.
func TestTheEndOfATextCompletesItsLastWord(t *testing.T) {
	m := wordModel(t)
	w := testWorker(t, m, 1)
	for n := range 2 * testChunk {
		text := strings.Repeat("a ", n) + "mat"
		ended, line := New(m, settings(m, nil)), New(m, settings(m, nil))
		w.Feed(ended, []byte(text), nil)
		w.End(ended, nil)
		w.Feed(line, []byte(text+"\n"), nil)
		w.End(line, nil)
		require.EqualValues(t, n+2, ended.Tally.Tokens)
		require.Equal(t, line.Tally.Bits, ended.Tally.Bits)
		require.EqualValues(t, len(text), ended.Offset())
	}
}

// A restored stream goes on in the middle of a word, and at the end of a line that had no room.
func TestASnapshotInTheMiddleOfAWord(t *testing.T) {
	m := wordModel(t)
	w := testWorker(t, m, 2)
	each(t, Methods(), func(t *testing.T, method string) {
		rapid.Check(t, func(t *rapid.T) {
			text := drawWordText(t)
			s := New(m, settings(m, methodIs(method)))
			w.Feed(s, []byte(text), nil)
			again := restored(t, m, s.Settings, snapshotBytes(t, s))
			require.Equal(t, s.Hash(), again.Hash())
			require.Equal(t, s.MemoryBytes(), again.MemoryBytes())
			more := drawWordText(t)
			w.Feed(s, []byte(more), nil)
			w.Feed(again, []byte(more), nil)
			require.Equal(t, s.Hash(), again.Hash())
		})
	})
}

func TestAWarmChunkOfWordsAllocatesNothing(t *testing.T) {
	m := wordModel(t)
	w := testWorker(t, m, 2)
	text := []byte(modeltest.WordText(60))
	each(t, Methods(), func(t *testing.T, method string) {
		s := New(m, settings(m, methodIs(method)))
		s.WatchLines(0)
		feed := func() {
			for at := 0; at < len(text); at += 50 {
				w.Feed(s, text[at:min(at+50, len(text))], nil)
			}
		}
		feed()
		require.Zero(t, testing.AllocsPerRun(3, feed))
	})
}

// What is sampled after a text is a function of the text. Printed behind it, it is read as the tokens
// that were sampled, none of which is unknown.
func TestSampledWordsArePrintedAsTheyAreRead(t *testing.T) {
	m := wordModel(t)
	w := testWorker(t, m, 1)
	rapid.Check(t, func(t *rapid.T) {
		text := drawWordText(t)
		s := New(m, settings(m, nil))
		w.Feed(s, []byte(text), nil)
		before := s.Hash()
		var ids []int32
		printed := []byte(text)
		sampler := txl.NewSampler(txl.Sampling{Temperature: 1, Seed: 3}, m.Tokenizer.Vocab())
		w.Sample(s.Frozen(), sampler, func(to Token) bool {
			require.False(t, math.IsInf(float64(to.LogProbs[m.Tokenizer.Unknown()]), 0))
			require.NotEqual(t, m.Tokenizer.Unknown(), to.ID)
			ids, printed = append(ids, to.ID), append(printed, to.Text...)
			return len(ids) < 2*testChunk
		})
		require.Equal(t, before, s.Hash())
		var all tokenizer.Tokens
		var pending tokenizer.Pending
		m.Tokenizer.Next(&all, &pending, append(printed, ' '), len(printed))
		require.Equal(t, ids, all.IDs[len(all.IDs)-len(ids):])
		require.NotContains(t, string(printed[len(text):]), "  ")
	})
}
