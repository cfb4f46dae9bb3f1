package stream

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lmserve/lmserve/internal/arithmetic/companion"
	"github.com/lmserve/lmserve/internal/arithmetic/lines"
	"github.com/lmserve/lmserve/internal/arithmetic/model/modeltest"
	"github.com/lmserve/lmserve/weights"
)

// lesson is a text and the numbers of its lines that are not learned. The last line may lack a
// newline.
type lesson struct {
	text string
	how  Lesson
}

// drawLesson draws a lesson. Parameter line makes a line of the given size. Some lines span several
// chunks, and some are too long to be learned.
func drawLesson(t *rapid.T, line func(bytes int) string) (l lesson) {
	l.how.ByLine = true
	for n := range rapid.IntRange(1, 8).Draw(t, "lines") {
		bytes := rapid.IntRange(1, 3*chunk).Draw(t, "bytes")
		if rapid.IntRange(0, 30).Draw(t, "too long") == 30 {
			bytes = HeldMax + rapid.IntRange(0, 2).Draw(t, "over")
		}
		l.text += line(bytes) + "\n"
		if rapid.Bool().Draw(t, "skipped") {
			l.how.Skipped = append(l.how.Skipped, uint16(n))
		}
	}
	if rapid.Bool().Draw(t, "under way") {
		l.text = l.text[:rapid.IntRange(len(l.text)/2, len(l.text)).Draw(t, "until")]
	}
	return l
}

// learnt reports whether the line with the byte at offset `at` is learned. An open line counts as
// learned unless it is too long.
func (l *lesson) learnt(at int) bool {
	number := uint16(strings.Count(l.text[:at], "\n"))
	begin := strings.LastIndexByte(l.text[:at], '\n') + 1
	line, _, ended := strings.Cut(l.text[begin:], "\n")
	bytes := len(line)
	if ended {
		bytes++
	}
	return bytes <= HeldMax && !(ended && slices.Contains(l.how.Skipped, number))
}

// feed feeds the text in random pieces. It returns the cost of each token and the offset of the
// byte to which the cost belongs. Between pieces it sometimes restores the stream from a snapshot,
// or scores the next line with a reader of the stream.
func (l *lesson) feed(
	t *rapid.T, w *Worker, s **Stream, visit func(Scores),
) (nll []float32, falls []int) {
	for at := 0; at < len(l.text); {
		n := rapid.IntRange(1, min(len(l.text)-at, 2*chunk)).Draw(t, "piece")
		rest := l.how.From([]byte(l.text), at)
		var read []float32
		switch rapid.IntRange(0, 20).Draw(t, "between") {
		case 0:
			was := (*s).Hash()
			*s = restored(t, (*s).model, (*s).Settings, snapshotBytes(t, *s))
			require.Equal(t, was, (*s).Hash())
		case 1:
			line, _, _ := strings.Cut(l.text[at:at+n], "\n")
			if left := HeldMax - (at - (strings.LastIndexByte(l.text[:at], '\n') + 1)); left >= 0 {
				// a reader treats the line as learned, which requires at most HeldMax bytes
				line = line[:min(len(line), left)]
			}
			read = slices.Clone(w.Score((*s).Reader(), []byte(line)).NLL)
		}
		s := *s
		scores := w.ScoreAs(s, []byte(l.text[at:at+n]), rest)
		require.True(t, slices.Equal(read, scores.NLL[:len(read)]))
		visit(scores)
		nll = append(nll, scores.NLL...)
		for _, fall := range scores.falls {
			falls = append(falls, at+fall)
		}
		w.Commit(s, scores)
		w.Settle(s)
		at += len(scores.Text)
	}
	return nll, falls
}

func TestSkippedLineTeachesCompanionNothing(t *testing.T) {
	m := testModel(t)
	w, other := testWorker(t, m, 1), testWorker(t, m, 2)
	set := settings(m, methodIs(Static))
	set.CompanionBytes = companion.TableBytesMin
	alone := set
	alone.Companion = false
	rapid.Check(t, func(t *rapid.T) {
		l := drawLesson(t, func(bytes int) string {
			return strings.Repeat(rapid.StringOfN(rapid.RuneFrom([]rune("abc, ")), 3, 9, -1).
				Draw(t, "words"), bytes)[:bytes]
		})
		var network []companion.Networks
		base := New(m, alone)
		for rest := []byte(l.text); len(rest) > 0; {
			rest = rest[other.Read(base, rest, func(token Token) {
				network = append(network, companion.Networks{slices.Clone(token.LogProbs)})
			}):]
		}
		s := New(m, set)
		got, _ := l.feed(t, w, &s, func(Scores) {})

		learnt, x := companion.New(set.companion()), companion.NewScratch(w.Exec.Vectors)
		along, want := learnt.Clone(), []float32(nil)
		for i := range len(l.text) {
			x.Begin(along)
			want = append(want, x.Score(along, network[i], l.text[i]))
			if l.text[i] == '\n' {
				if l.learnt(i) {
					learnt.CopyFrom(along)
				}
				along.CopyFrom(learnt)
			}
		}
		require.Equal(t, want, got)
		require.Equal(t, along.AppendTo(nil), s.Companion.AppendTo(nil))
		if before := s.beforeLine(); before != nil {
			require.Equal(t, learnt.AppendTo(nil), before.AppendTo(nil))
		}
	})
}

func TestSkippedLineIsNotInCacheOfWords(t *testing.T) {
	m := wordModel(t)
	w, other := testWorker(t, m, 1), testWorker(t, m, 2)
	set := settings(m, methodIs(Static))
	set.Cache.Size = 40
	alone := set
	alone.Companion = false
	words := strings.Fields(modeltest.WordText(9))
	rapid.Check(t, func(t *rapid.T) {
		l := drawLesson(t, func(bytes int) string {
			text := ""
			for len(text) < bytes {
				text += words[rapid.IntRange(0, len(words)-1).Draw(t, "word")] + " "
			}
			return text[:bytes]
		})
		s, base := New(m, set), New(m, alone)
		got, falls := l.feed(t, w, &s, func(Scores) {})

		var all, window []position
		k, width := 0, m.LM.Config.DModel
		l.feed(t, other, &base, func(scores Scores) {
			hidden := other.seg.Hidden()
			hidden = hidden[len(hidden)-len(scores.NLL)*width:]
			for i, id := range scores.Tokens.IDs {
				h := slices.Clone(hidden[i*width : (i+1)*width])
				begin := 0
				if k > 0 {
					begin = strings.LastIndexByte(l.text[:falls[k]], '\n') + 1
				}
				if k == 0 || strings.Contains(l.text[falls[k-1]:falls[k]], "\n") {
					window = slices.Clone(all)
				}
				long := falls[k]-begin > HeldMax
				if long && falls[k] != falls[k-1] {
					window = slices.Clone(all)
				}
				require.InDelta(t, mixed(window, set, h, id, scores.NLL[i]), got[k], 1e-3)
				window = append(window, position{h, id})
				if l.learnt(falls[k]) {
					all = append(all, position{h, id})
				}
				k++
			}
		})
		require.Len(t, got, k)
	})
}

// A line with many cut words has more tokens than the memory for open lines.
func TestLineOfManyPartsIsNotLearned(t *testing.T) {
	m, err := modeltest.SmallOfProse()
	require.NoError(t, err)
	w := testWorker(t, m, 1)
	set := settings(m, methodIs(Static))
	set.Cache.Size = 40
	s, other := New(m, set), New(m, set)
	feedAs(w, s, "the man\n", Lesson{ByLine: true})
	feedAs(w, other, "the man\n", Lesson{ByLine: true})
	long := strings.Repeat("a-b-c-d-e-f ", HeldMax/12) + "\n"
	feedAs(w, s, long, Lesson{ByLine: true})
	feedAs(w, other, long, Lesson{ByLine: true, Skipped: []uint16{0}})
	feedAs(w, s, "the man is here\n", Lesson{ByLine: true})
	feedAs(w, other, "the man is here\n", Lesson{ByLine: true})
	require.Equal(t, other.Hash(), s.Hash())
}

// A chunk ends within a cut word at the end of a line, so that the word's last parts are tokens of
// the next line.
func TestStateWithLatePartsOfWordIsRestored(t *testing.T) {
	m, err := modeltest.SmallOfProse()
	require.NoError(t, err)
	for _, method := range []string{Static, SparseMeta} {
		w := testWorker(t, m, 1)
		s := New(m, settings(m, methodIs(method)))
		text := strings.Repeat("a ", s.Settings.Chunk-3) + "a-b-c-d-e-f\nn"
		for at := range text {
			w.FeedAs(s, []byte(text[at:at+1]), Lesson{ByLine: true})
			f, err := s.Stored()
			require.NoError(t, err)
			_, _, err = Restore(m, s.Settings, f)
			require.NoError(t, err, "after %q", text[:at+1])
		}
	}
}

// position is a cache entry: a hidden state and the token that followed it.
type position struct {
	hidden []float32
	next   int32
}

// mixed returns the cost of token id, in nats, under the mixture of the network and a cache of the
// last positions. Parameter nll is the cost under the network alone.
func mixed(all []position, set Settings, hidden []float32, id int32, nll float32) float64 {
	all = all[max(0, len(all)-set.Cache.Size):]
	if len(all) == 0 {
		return float64(nll)
	}
	sum, hit := 0., 0.
	scale := float64(set.Cache.Theta) / math.Sqrt(float64(len(hidden)))
	for _, p := range all {
		dot := 0.
		for i, h := range p.hidden {
			dot += float64(h) * float64(hidden[i])
		}
		e := math.Exp(dot * scale)
		if sum += e; p.next == id {
			hit += e
		}
	}
	lambda := float64(set.Cache.Lambda) * float64(len(all)) / float64(len(all)+companionWarm)
	return -math.Log((1-lambda)*math.Exp(-float64(nll)) + lambda*hit/sum)
}

// ScoreLines chooses the skipped lines while it scores. The scores must be bit-identical to those
// of ScoreAs, which gets the list of skipped lines.
func TestLinesAreDecidedOnWhenTheyAreScored(t *testing.T) {
	for _, method := range append(gradientMethods, Static) {
		w, s := heldStream(t, method)
		defer w.Close()
		again := another(s)
		s.WatchLines(0)
		text := []byte(strings.Repeat("one\ntwo two\nxxxxxxxxx\none\n", 20))
		skip := func(l *lines.Line) bool { return l.Text[0] == 'x' }
		skipped := 0
		for len(text) > 0 {
			scores := w.ScoreLines(s, text, skip)
			how, nll := scores.Lesson, slices.Clone(scores.NLL)
			how.Skipped = slices.Clone(how.Skipped)
			skipped += len(how.Skipped)
			w.Commit(s, scores)
			w.Settle(s)
			scores = w.ScoreAs(again, scores.Text, how)
			require.Equal(t, nll, scores.NLL)
			w.Commit(again, scores)
			w.Settle(again)
			text = text[len(nll):]
		}
		require.Equal(t, 20, skipped)
		again.WatchLines(s.Offset())
		require.Equal(t, s.Companion.AppendTo(nil), again.Companion.AppendTo(nil))
	}
}

// A snapshot also stores the companion's state before the open line. In older snapshots, which lack
// this state, the open line counts as learned.
func TestSnapshotHasCompanionBeforeLine(t *testing.T) {
	m := testModel(t)
	w := testWorker(t, m, 1)
	s := New(m, settings(m, methodIs(Static)))
	feedAs(w, s, "learnt\nskipped\nunder way", Lesson{ByLine: true, Skipped: []uint16{1}})
	require.EqualValues(t, len("learnt\nunder way"), s.Companion.Length())
	require.EqualValues(t, len("learnt\n"), s.beforeLine().Length())
	for says, spoil := range map[string]func(*weights.File){
		"has read 16 bytes, expected 7, the length": tensor(tensorBefore,
			func(t *weights.Tensor) { copy(t.Data, s.Companion.AppendTo(nil)) }),
		"is of version 7": tensor(tensorBefore, func(t *weights.Tensor) { t.Data[0] = 7 }),
	} {
		f, err := s.Snapshot()
		require.NoError(t, err)
		f.Tensors = slices.Clone(f.Tensors)
		spoil(f)
		_, _, err = Restore(m, s.Settings, f.Stored())
		require.ErrorContains(t, err, says)
	}
	f, err := s.Snapshot()
	require.NoError(t, err)
	f.Tensors = slices.DeleteFunc(f.Tensors, func(t weights.Tensor) bool {
		return t.Name == tensorBefore
	})
	old, _, err := Restore(m, s.Settings, f.Stored())
	require.NoError(t, err)
	require.Equal(t, s.Companion.AppendTo(nil), old.beforeLine().AppendTo(nil))
}
