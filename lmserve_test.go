package lmserve_test

import (
	"bytes"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lmserve/lmserve"
	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/model/modeltest"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/arithmetic/suggest"
	"github.com/lmserve/lmserve/txl"
	"github.com/lmserve/lmserve/weights"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var text = bytes.Repeat([]byte("the quick brown fox jumps over the lazy dog\n"), 12)

func small(t *testing.T, threads int) *lmserve.Model { return load(t, modeltest.Small, threads) }

func load(t *testing.T, build func() (*model.Model, error), threads int) *lmserve.Model {
	path := filepath.Join(t.TempDir(), "small.safetensors")
	random, err := build()
	require.NoError(t, err)
	require.NoError(t, weights.WriteFile(path, random.File(), weights.OptionsFor(path)))
	m, err := lmserve.Load(path, lmserve.Options{Threads: threads})
	require.NoError(t, err)
	t.Cleanup(m.Close)
	return m
}

func open(t *testing.T, m *lmserve.Model) *lmserve.Stream {
	set := m.Settings()
	set.Baseline, set.Seed = true, 3
	s, err := m.Open(set)
	require.NoError(t, err)
	return s
}

func TestSplitTextGivesSameBits(t *testing.T) {
	m := small(t, 2)
	whole, parts := open(t, m), open(t, m)
	bits := whole.Feed(text)
	require.Positive(t, bits)
	var sum, static float64
	var seen []byte
	for piece := text; len(piece) > 0; {
		n := min(7, len(piece))
		parts.FeedEach(piece[:n], func(b byte, bits, base float64) {
			seen, sum, static = append(seen, b), sum+bits, static+base
		})
		piece = piece[n:]
	}
	require.Equal(t, whole.Tally(), parts.Tally())
	require.Equal(t, whole.Baseline(), parts.Baseline())
	require.Equal(t, text, seen)
	require.InDelta(t, bits, sum, 1e-9*bits)
	require.InDelta(t, parts.Baseline().Bits, static, 1e-9*static)
	require.EqualValues(t, len(text), parts.Tally().Bytes)
}

func TestForksAndRestoredStreamsContinueToSameBits(t *testing.T) {
	m := small(t, 1)
	s := open(t, m)
	s.Feed(text)
	var file bytes.Buffer
	require.NoError(t, s.Snapshot(&file))
	restored, err := m.Restore(bytes.NewReader(file.Bytes()))
	require.NoError(t, err)
	fork, err := s.Fork()
	require.NoError(t, err)
	want := s.Feed(text)
	require.Equal(t, want, restored.Feed(text))
	_, err = fork.Write(text)
	require.NoError(t, err)
	require.Equal(t, s.Tally(), fork.Tally())
	require.Equal(t, s.Settings(), restored.Settings())
	fork.Feed([]byte("its own way"))
	require.NotEqual(t, s.Tally(), fork.Tally())

	_, err = m.Restore(bytes.NewReader(file.Bytes()[:file.Len()/2]))
	require.Error(t, err, "a snapshot cut off")
	_, err = m.Restore(bytes.NewReader(nil))
	require.Error(t, err)
	damaged := bytes.Replace(file.Bytes(), []byte("lmserve.snapshot"), []byte("lmserve.snapshop"),
		1)
	_, err = m.Restore(bytes.NewReader(damaged))
	require.ErrorContains(t, err, "the file is not a snapshot")
}

func TestCompletionLeavesStreamUnchanged(t *testing.T) {
	m := small(t, 1)
	s, alone := open(t, m), open(t, m)
	s.Feed(text)
	alone.Feed(text)
	p := txl.Sampling{Temperature: 1, Seed: 5}
	got, err := s.Complete([]byte("the "), 40, p)
	require.NoError(t, err)
	require.Len(t, got, 40)
	again, err := s.Complete([]byte("the "), 40, p)
	require.NoError(t, err)
	require.Equal(t, got, again)
	require.Equal(t, alone.Feed(text), s.Feed(text))

	_, err = s.Complete(nil, 0, p)
	require.ErrorContains(t, err, "tokens is 0")
	_, err = s.Complete(nil, 1, txl.Sampling{Temperature: -1})
	require.ErrorContains(t, err, "temperature is -1")
}

func TestLinesAreTheSameInAnyPieces(t *testing.T) {
	m := small(t, 1)
	collect := func(to *[]lmserve.Line) func(lmserve.Line) {
		return func(l lmserve.Line) {
			l.Text = bytes.Clone(l.Text)
			*to = append(*to, l)
		}
	}
	whole, parts := open(t, m), open(t, m)
	var want, got []lmserve.Line
	bits := whole.FeedLines(append(text, "the end"...), collect(&want))
	require.Equal(t, bits, whole.Tally().Bits)
	for i := range text {
		parts.FeedLines(text[i:i+1], collect(&got))
		if i == len(text)/2 {
			var err error
			parts, err = parts.Fork()
			require.NoError(t, err)
		}
	}
	require.Equal(t, want, got)
	require.Len(t, want, 12)
	require.EqualValues(t, 12, want[11].Number)
	require.EqualValues(t, len(text)-44, want[11].Offset)
	require.Equal(t, text[:43], want[11].Text)
	require.Positive(t, want[11].Baseline)
	require.GreaterOrEqual(t, want[11].Rank, int64(1))

	var last []lmserve.Line
	before := whole.Tally()
	whole.LastLine(collect(&last))
	require.Equal(t, "the end", string(last[0].Text))
	require.Equal(t, before, whole.Tally())
	parts.LastLine(func(lmserve.Line) { t.Error("no line is under way") })
}

func TestSuggestionsLeaveTheStreamAsItIs(t *testing.T) {
	m := small(t, 1)
	s, alone := open(t, m), open(t, m)
	s.Feed(text)
	alone.Feed(text)
	found, err := s.Suggest(t.Context(), []byte("the qu"), lmserve.SuggestOptions{N: 3})
	require.NoError(t, err)
	require.NotEmpty(t, found)
	require.Equal(t, alone.Feed(text), s.Feed(text))

	for _, wrong := range []lmserve.SuggestOptions{
		{N: -1}, {Unit: "page"}, {Least: 2}, {Within: -1},
	} {
		_, err = s.Suggest(t.Context(), nil, wrong)
		require.ErrorContains(t, err, "expected")
	}
	_, err = s.Suggest(t.Context(), make([]byte, 2000), lmserve.SuggestOptions{})
	require.ErrorContains(t, err, "the typed text has 2000 bytes")
}

func TestCostsAreOfStreamNetworkAndBaseline(t *testing.T) {
	m := small(t, 1)
	set := m.Settings()
	set.Method, set.Baseline = lmserve.MethodStatic, true
	s, err := m.Open(set)
	require.NoError(t, err)
	c := s.FeedCosts(text)
	require.Equal(t, s.Tally().Bits, c.Bits)
	require.Equal(t, s.Baseline().Bits, c.Baseline)
	require.InDelta(t, c.Baseline, c.Network, 1e-9*c.Network, "the network is the static one")
	require.Less(t, c.Bits, c.Network)
	set.Companion = false
	s, err = m.Open(set)
	require.NoError(t, err)
	c = s.FeedCosts(text)
	require.InDelta(t, c.Bits, c.Network, 1e-9*c.Bits)
}

// Package lmserve repeats the names of methods and units, which internal packages define. The names
// must be equal.
func TestNamesAreThoseOfTheArithmetic(t *testing.T) {
	require.ElementsMatch(t, stream.AllMethods(), []string{
		lmserve.MethodStatic, lmserve.MethodSparseMeta, lmserve.MethodDynamicSGD,
		lmserve.MethodDynamicRMS, lmserve.MethodCache, lmserve.MethodCounts,
	})
	require.Equal(t, []suggest.Unit{suggest.Word, suggest.WordPlus, suggest.Line, suggest.Free},
		[]suggest.Unit{suggest.Unit(lmserve.UnitWord), suggest.Unit(lmserve.UnitWordPlus),
			suggest.Unit(lmserve.UnitLine), suggest.Unit(lmserve.UnitFree)})
}

func TestSettingsOfOpenStreamStayAsTheyAre(t *testing.T) {
	m := small(t, 1)
	want := open(t, m).Feed(text)
	set := m.Settings()
	set.Baseline, set.Seed = true, 3
	s, err := m.Open(set)
	require.NoError(t, err)
	set.Adapt.Gammas[0] = .1
	s.Settings().Adapt.Gammas[0] = .2
	require.Equal(t, want, s.Feed(text))
}

func TestStreamsOfOneModelRunSideBySide(t *testing.T) {
	m := small(t, 2)
	want := open(t, m).Feed(text)
	var wait sync.WaitGroup
	for range 4 {
		s := open(t, m)
		wait.Go(func() {
			for piece := text; len(piece) > 0; piece = piece[min(50, len(piece)):] {
				s.Feed(piece[:min(50, len(piece))])
			}
			if got := s.Tally().Bits; got != want {
				t.Errorf("found %v bits, want %v", got, want)
			}
		})
	}
	wait.Wait()
}

func TestWhatCannotBeIsRefused(t *testing.T) {
	_, err := lmserve.Default(lmserve.Options{Threads: -1})
	require.ErrorContains(t, err, "threads is -1")
	_, err = lmserve.Load(filepath.Join(t.TempDir(), "none"), lmserve.Options{})
	require.ErrorContains(t, err, "none")
	_, err = lmserve.Embedded("magic", lmserve.Options{})
	require.ErrorContains(t, err, `found "magic", expected default, swift`)
	swift, err := lmserve.Embedded("swift", lmserve.Options{})
	require.NoError(t, err)
	defer swift.Close()
	require.Contains(t, swift.ID(), "lmserve-swift-")
	m := small(t, 1)
	set := m.Settings()
	set.Method = "magic"
	_, err = m.Open(set)
	require.ErrorContains(t, err, `method is "magic"`)
	require.NotEmpty(t, m.ID())
}

// The text for a model of words can be fed in any pieces. A stream can be stored even in the middle
// of a word.
func TestStreamOfWords(t *testing.T) {
	m := load(t, modeltest.SmallOfWords, 1)
	text := []byte(modeltest.WordText(20))
	text = text[:len(text)-3]
	whole, parts := open(t, m), open(t, m)
	bits := whole.Feed(text)
	var seen []byte
	sum := parts.FeedEach(text[:100], func(b byte, _, _ float64) { seen = append(seen, b) })
	var stored bytes.Buffer
	require.NoError(t, parts.Snapshot(&stored))
	again, err := m.Restore(&stored)
	require.NoError(t, err)
	sum += again.FeedEach(text[100:], func(b byte, _, _ float64) { seen = append(seen, b) })
	require.Equal(t, text, seen)
	require.InDelta(t, bits, sum, 1e-9*bits)
	require.Equal(t, whole.Tally(), again.Tally())
	require.Positive(t, whole.Tally().Unknown)
	require.Less(t, whole.Tally().Bytes, int64(len(text)), "the last word may go on")
	more, err := whole.Complete([]byte("the dog"), 9, txl.Sampling{Temperature: 1, Seed: 4})
	require.NoError(t, err)
	require.Len(t, bytes.FieldsFunc(more, func(r rune) bool { return r == ' ' || r == '\n' }),
		9-bytes.Count(more, []byte("\n")))
}
