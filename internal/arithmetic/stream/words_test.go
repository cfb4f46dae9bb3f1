package stream

import (
	"bytes"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lmserve/lmserve/internal/arithmetic/lines"
	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/model/modeltest"
	"github.com/lmserve/lmserve/internal/arithmetic/setting"
	"github.com/lmserve/lmserve/tokenizer"
	"github.com/lmserve/lmserve/txl"
	"github.com/lmserve/lmserve/weights"
)

func wordModel(t require.TestingT) *model.Model {
	m, err := modeltest.SmallOfWords()
	require.NoError(t, err)
	return m
}

func eachWordModel(t *testing.T, test func(*testing.T, *model.Model)) {
	t.Run("words", func(t *testing.T) { test(t, wordModel(t)) })
	m, err := modeltest.SmallOfProse()
	require.NoError(t, err)
	t.Run("prose", func(t *testing.T) { test(t, m) })
}

func drawWordText(t *rapid.T) string {
	text := modeltest.WordText(rapid.IntRange(1, 30).Draw(t, "lines"))
	if rapid.Bool().Draw(t, "long") {
		text += strings.Repeat("w", 3000) + " " + strings.Repeat(" ", 2000) + text
	}
	text += strings.Repeat(modeltest.Prose, rapid.IntRange(0, 3).Draw(t, "prose"))
	return text[:rapid.IntRange(0, len(text)).Draw(t, "bytes")]
}

func cutUp(t *rapid.T, text string) (cut []string) {
	for len(text) > 0 {
		most := rapid.SampledFrom([]int{1, 3, 40, 4000}).Draw(t, "most")
		n := min(len(text), rapid.IntRange(1, most).Draw(t, "piece"))
		cut, text = append(cut, text[:n]), text[n:]
	}
	return cut
}

func TestWordsDoNotDependOnThePiecesOfTheText(t *testing.T) {
	eachWordModel(t, wordsDoNotDependOnThePiecesOfTheText)
}

func wordsDoNotDependOnThePiecesOfTheText(t *testing.T, m *model.Model) {
	one, many := testWorker(t, m, 1), testWorker(t, m, 3)
	each(t, Methods(), func(t *testing.T, method string) {
		rapid.Check(t, func(t *rapid.T) {
			set := settings(m, methodIs(method))
			set.Baseline = rapid.Bool().Draw(t, "baseline")
			whole, cut := New(m, set), New(m, set)
			watched, byLine := rapid.Bool().Draw(t, "watched"), LearnsByLine(method) &&
				rapid.Bool().Draw(t, "by line")
			if watched {
				whole.WatchLines(0)
				cut.WatchLines(0)
			}
			feed := func(w *Worker, s *Stream, text string) (told []string) {
				note := func(l *lines.Line) {
					told = append(told, fmt.Sprint(l.Number, l.Offset, l.Bytes, l.Bits, l.P))
				}
				for rest := []byte(text); len(rest) > 0; {
					scores := w.ScoreAs(s, rest, Lesson{ByLine: byLine})
					rest = rest[len(scores.Text):]
					w.CommitLines(s, scores, note)
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

func TestEndOfTextCompletesItsLastWord(t *testing.T) {
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

// Parts of words may fill a chunk. Score must still read some text from each piece, and End must
// feed the parts that did not fit.
func TestPartsOfWordsFillChunks(t *testing.T) {
	m, err := modeltest.SmallOfProse()
	require.NoError(t, err)
	w := testWorker(t, m, 1)
	text := strings.Repeat(modeltest.Prose, 9)
	var all tokenizer.Tokens
	m.Tokenizer.Next(&all, new(tokenizer.Pending), []byte(text), len(text))
	s := New(m, settings(m, func(s *Settings) { s.Chunk = ChunkMin(m) }))
	var ids []int32
	due := 0
	for rest := []byte(text); len(rest) > 0; {
		scores := w.Score(s, rest)
		require.NotEmpty(t, scores.Text)
		rest = rest[len(scores.Text):]
		ids = append(ids, scores.Tokens.IDs...)
		w.Commit(s, scores)
		w.Settle(s)
		if s.Text.Due() {
			ended, tokens := s.Frozen(), s.Tally.Tokens
			w.EndWord(ended, nil)
			require.False(t, ended.MidWord())
			require.Equal(t, s.Offset(), ended.Offset(), "no byte is added, and none is lost")
			require.Greater(t, ended.Tally.Tokens, tokens)
		}
		if s.Text.Ended > 0 {
			due++
			f, err := s.Snapshot()
			require.NoError(t, err)
			tensor(tensorWord, func(t *weights.Tensor) {
				t.Shape, t.Data = []int{12}, []byte(",,,,,,,,,,,,")
			})(f)
			line := regexp.MustCompile(`"line":false(.*"ended":)[0-9]`)
			f.Metadata[keySnapshot] = line.ReplaceAllString(f.Metadata[keySnapshot],
				`"line":true${1}1`)
			_, _, err = Restore(m, s.Settings, f.Stored())
			require.ErrorContains(t, err, "found more than 12 tokens")
		}
	}
	require.Equal(t, all.IDs, ids)
	require.Positive(t, due)
	require.EqualValues(t, len(text), s.Offset())
}

// A snapshot may be made in the middle of a word. It may also be made at the end of a line whose
// token did not fit into the chunk.
func TestSnapshotInMidWord(t *testing.T) { eachWordModel(t, aSnapshotInTheMiddleOfAWord) }

func aSnapshotInTheMiddleOfAWord(t *testing.T, m *model.Model) {
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

// wordSnapshot returns a snapshot that was made in the middle of a word. The stream rates lines.
func wordSnapshot(t require.TestingT, method string) (*weights.File, Settings) {
	m := wordModel(t)
	w := NewWorker(m, 1)
	defer w.Close()
	s := New(m, settings(m, func(s *Settings) { s.Method, s.Baseline = method, true }))
	s.WatchLines(0)
	w.Feed(s, []byte(modeltest.WordText(9)+"the zebra  extraordi"), nil)
	f, err := s.Snapshot()
	require.NoError(t, err)
	return f, s.Settings
}

func TestMisfitSnapshotOfWordsIsRefused(t *testing.T) {
	m := wordModel(t)
	f, set := wordSnapshot(t, Static)
	_, _, err := Restore(m, set, f.Stored())
	require.NoError(t, err)
	header := f.Metadata[keySnapshot]
	change := func(name string) func(*weights.File) {
		value := regexp.MustCompile(`"` + name + `":[0-9.]+`).FindString(header)
		return replace(value, `"`+name+`":-1`)
	}
	for says, spoil := range map[string]func(*weights.File){
		"tally.tokens is -1":                 change("tokens"),
		"tally.chars is -1":                  change("chars"),
		"tally.unknown is -1":                change("unknown"),
		"tally.unknown_bytes is -1":          change("unknown_bytes"),
		"tally.unknown_chars is -1":          change("unknown_chars"),
		"the cost of unknown words is -1":    change("unknown_bits"),
		"and -1 bits for the baseline":       change("baseline_unknown_bits"),
		"valid only after a full chunk":      replace(`"line":false`, `"line":true`),
		"text: tokenizer: pending: found -1": replace(`"space":2`, `"space":-1`),
		"pending: 9 bytes of a long word":    replace(`"more":0`, `"more":7`),
		"found no field": func(f *weights.File) {
			f.Metadata[keySnapshot] = header[:strings.Index(header, `,"text"`)] + "}"
		},
		`tensor "text.word" is missing`: tensor(tensorWord,
			func(t *weights.Tensor) { t.Name = "x" }),
		`tensor "text.word" has type and shape U8`: tensor(tensorWord, func(t *weights.Tensor) {
			t.Shape = []int{9, 1}
		}),
		"white space at byte 1": tensor(tensorWord, func(t *weights.Tensor) {
			t.Data = []byte("e tra-ord")
		}),
	} {
		f, set := wordSnapshot(t, Static)
		f.Tensors = slices.Clone(f.Tensors)
		spoil(f)
		_, _, err := Restore(m, set, f.Stored())
		require.ErrorContains(t, err, says)
	}
	_, _, err = Restore(testModel(t), set, f.Stored())
	require.ErrorContains(t, err, "model is")
}

func FuzzRestoreWords(f *testing.F) {
	m := wordModel(f)
	file, set := wordSnapshot(f, Static)
	var b bytes.Buffer
	require.NoError(f, weights.Write(&b, file))
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		limits := weights.Limits{HeaderBytes: 1 << 16, DataBytes: 1 << 20, Tensors: 1 << 10}
		file, err := weights.Read(bytes.NewReader(b), limits)
		if err == nil {
			checkRestore(t, m, set, file)
		}
	})
}

func FuzzRestoreWordsHeader(f *testing.F) {
	m := wordModel(f)
	file, set := wordSnapshot(f, Static)
	f.Add(file.Metadata[keySnapshot])
	f.Fuzz(func(t *testing.T, text string) {
		metadata := map[string]string{keySnapshot: text}
		checkRestore(t, m, set, &weights.File{Metadata: metadata, Tensors: file.Tensors})
	})
}

func TestChunkOfOneWordIsRefused(t *testing.T) {
	m := wordModel(t)
	_, err := With(m, setting.Values{"chunk": 1})
	require.EqualError(t, err,
		"setting chunk: found 1, expected 2 to 1024 for a model of words")
	set := Defaults(m)
	set.Chunk = 1
	require.ErrorContains(t, set.Validate(m), "chunk is 1, expected 2 to 1024")
	prose, err := modeltest.SmallOfProse()
	require.NoError(t, err)
	// A word may have 12 parts, so a chunk needs at least 13 tokens.
	_, err = With(prose, setting.Values{"chunk": 12})
	require.ErrorContains(t, err, "found 12, expected 13 to 1024")
}

func TestWarmChunkOfWordsAllocatesNothing(t *testing.T) {
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

// When a sampled text is fed, the tokenizer must split it into the sampled tokens. No sampled token
// may be the unknown word.
func TestSampledWordsArePrintedAsTheyAreRead(t *testing.T) {
	eachWordModel(t, sampledWordsArePrintedAsTheyAreRead)
}

func sampledWordsArePrintedAsTheyAreRead(t *testing.T, m *model.Model) {
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
