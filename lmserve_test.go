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
	"github.com/lmserve/lmserve/txl"
	"github.com/lmserve/lmserve/weights"
)

// No test may leave the threads of a model behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var text = bytes.Repeat([]byte("the quick brown fox jumps over the lazy dog\n"), 12)

// small loads a small random model from a file.
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

func TestTheBitsOfATextAreThoseOfItsPieces(t *testing.T) {
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

func TestForksAndRestoredStreamsGoOnToTheSameBits(t *testing.T) {
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
	damaged := bytes.Replace(file.Bytes(), []byte("lmserve.snapshot"), []byte("lmserve.snapshop"), 1)
	_, err = m.Restore(bytes.NewReader(damaged))
	require.ErrorContains(t, err, "the file is no snapshot")
}

func TestACompletionLeavesTheStreamAsItIs(t *testing.T) {
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

// A stream of words is cut anywhere, stored in the middle of a word, and completed with words.
func TestAStreamOfWords(t *testing.T) {
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
