package stream

import (
	"bytes"
	"context"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lmserve/lmserve/internal/arithmetic/companion"
	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/suggest"
	"github.com/lmserve/lmserve/weights"
)

// prefixes records the distributions that a suggester computes. The key of a distribution is the
// text between the stream's text and the predicted byte.
type prefixes struct {
	*source
	of map[string][]float32
}

func (p prefixes) Grow(of []suggest.Prefix) {
	p.source.Grow(of)
	for _, prefix := range of {
		var text []byte
		for id := prefix.ID; id != p.textEnds; {
			parent, b := p.k.tree.At(id)
			text, id = append(text, b), parent
		}
		slices.Reverse(text)
		p.of[string(text)] = slices.Clone(prefix.LogProbs)
	}
}

func searched(
	t require.TestingT, w *Worker, s *Stream, k *Suggester, typed string, o suggest.Options,
) map[string][]float32 {
	w.resume(s)
	p := prefixes{&source{w: w, s: s, k: k}, map[string][]float32{}}
	p.begin(s)
	defer w.stay()
	root := p.reach([]byte(typed))
	_, err := k.tree.Search(context.Background(), p, root, o)
	require.NoError(t, err)
	return p.of
}

// requireAsFed compares each distribution with the distribution of a frozen copy that was fed the
// prefix.
func requireAsFed(t require.TestingT, w *Worker, s *Stream, all map[string][]float32) {
	for text, got := range all {
		f := s.Frozen()
		var want []float32
		// The space is the last token, which is scored by the distribution after the prefix.
		for rest := append([]byte(text), ' '); len(rest) > 0; {
			rest = rest[w.Read(f, rest, func(t Token) { want = slices.Clone(t.LogProbs) }):]
		}
		for b := range want {
			// The two computations round differently, with embedded weights by up to 3.4e-5 of the
			// log-probability.
			require.InDelta(t, want[b], got[b], 5e-5*max(1, math.Abs(float64(want[b]))),
				"byte %d behind %q", b, text)
		}
	}
}

func suggesting(t *rapid.T, m *model.Model) Settings {
	return settings(m, func(set *Settings) {
		set.Method = rapid.SampledFrom([]string{Static, SparseMeta, DynamicSGD}).Draw(t, "method")
		set.Companion = rapid.Bool().Draw(t, "companion")
		set.CompanionStatic = rapid.Bool().Draw(t, "static")
		// The test makes many copies, so the tables are small.
		set.CompanionBytes = companion.TableBytesMin
	})
}

// The distribution after a prefix equals the distribution of a stream that has read the prefix. The
// prefix may extend beyond the chunk, and the tree may come from an earlier search.
func TestSuggestComputesWhatReadingWould(t *testing.T) {
	m := upperModel(t)
	counts := model.Counts()
	w, uniform := testWorker(t, m, 2), testWorker(t, counts, 1)
	rapid.Check(t, func(t *rapid.T) {
		w, s := w, New(m, suggesting(t, m))
		if rapid.IntRange(0, 3).Draw(t, "network") == 0 {
			set := Defaults(counts)
			set.CompanionBytes = companion.TableBytesMin
			w, s = uniform, New(counts, set)
		}
		rest := text[:rapid.IntRange(0, 60).Draw(t, "before")]
		w.Feed(s, []byte(rest), nil)
		rest = text[len(rest):]
		o := suggest.Options{N: 5, Unit: suggest.Free, Calls: 3}
		var k Suggester
		typed := 0
		for range 10 {
			typed = min(len(rest), typed+rapid.IntRange(0, 4).Draw(t, "typed"))
			before := s.Hash()
			requireAsFed(t, w, s, searched(t, w, s, &k, rest[:typed], o))
			require.Equal(t, before, s.Hash())
			if n := rapid.IntRange(-20, typed).Draw(t, "accepted"); n > 0 {
				w.Feed(s, []byte(rest[:n]), nil)
				rest, typed = rest[n:], typed-n
			}
			if rapid.IntRange(0, 5).Draw(t, "other stream") == 0 {
				w.Feed(New(s.model, s.Settings), []byte(text), nil)
			}
		}
	})
}

func TestSuggestKeepsWhatItHasComputed(t *testing.T) {
	m := upperModel(t)
	w := testWorker(t, m, 1)
	s := New(m, settings(m, nil))
	w.Feed(s, []byte(text[:5*testChunk]), nil)
	typed := text[5*testChunk:][:3]
	var k Suggester
	o := suggest.Options{N: 5, Unit: suggest.Free, Calls: 1000}
	first, err := w.Suggest(t.Context(), s, &k, []byte(typed), o)
	require.NoError(t, err)
	require.NotEmpty(t, first.Candidates)
	again, err := w.Suggest(t.Context(), s, &k, []byte(typed), o)
	require.NoError(t, err)
	require.Equal(t, first.Candidates, again.Candidates)
	require.Zero(t, again.Rows)
	w.Feed(s, []byte(typed[:1]), nil)
	again, err = w.Suggest(t.Context(), s, &k, []byte(typed[1:]), o)
	require.NoError(t, err)
	require.Equal(t, first.Candidates, again.Candidates)
	require.Zero(t, again.Rows, "the chunk is the same")
	bytes := k.Bytes()
	require.NotEmpty(t, k.guesses)
	k.guesses = nil
	require.Less(t, k.Bytes(), bytes, "guesses count")
}

func TestSuggesterThatIsLargeBeginsAfresh(t *testing.T) {
	m := upperModel(t)
	w := testWorker(t, m, 1)
	s := New(m, settings(m, nil))
	w.Feed(s, []byte(text), nil)
	var k Suggester
	o := suggest.Options{N: 5, Unit: suggest.Free, Calls: 1}
	small, err := w.Suggest(t.Context(), s, &k, nil, o)
	require.NoError(t, err)
	bytes := k.Bytes()
	w.resume(s)
	src := source{w: w, s: s, k: &k}
	src.begin(s)
	src.reach(make([]byte, keptPrefixes))
	w.stay()
	require.Greater(t, k.Bytes(), 4*bytes)
	again, err := w.Suggest(t.Context(), s, &k, nil, o)
	require.NoError(t, err)
	require.Equal(t, small, again)
	require.Equal(t, bytes, k.Bytes())
}

func TestGrowersReleaseReplacedSegment(t *testing.T) {
	m := upperModel(t)
	w := testWorker(t, m, 1)
	set := settings(m, nil)
	var k Suggester
	_, err := w.Suggest(t.Context(), New(m, set), &k, nil, suggest.Options{N: 1})
	require.NoError(t, err)
	require.NotNil(t, w.growers[0])
	set.Chunk *= 2
	w.Feed(New(m, set), []byte("a"), nil)
	require.Zero(t, w.growers)
}

func TestSuggestLeavesTheStreamAsItIs(t *testing.T) {
	m := upperModel(t)
	w := testWorker(t, m, 2)
	rapid.Check(t, func(t *rapid.T) {
		set := suggesting(t, m)
		asked, plain := New(m, set), New(m, set)
		byLine := Lesson{ByLine: rapid.Bool().Draw(t, "by line")}
		if byLine.ByLine {
			byLine.Skipped = []uint16{0}
		}
		var k Suggester
		for _, piece := range pieces(t, text+text) {
			for _, s := range []*Stream{asked, plain} {
				for rest := []byte(piece); len(rest) > 0; {
					rest = rest[w.FeedAs(s, rest, byLine):]
				}
			}
			if rapid.Bool().Draw(t, "ask") {
				o := suggest.Options{N: 3, Unit: suggest.WordPlus, Calls: 2}
				all := searched(t, w, asked, &k, "GET /"[:rapid.IntRange(0, 5).Draw(t, "typed")], o)
				requireAsFed(t, w, asked, all)
			}
			require.Equal(t, plain.Hash(), asked.Hash())
		}
	})
}

func TestSuggestionsAreTheSameOnAnyThreads(t *testing.T) {
	m := upperModel(t)
	var all [][]suggest.Found
	for threads := 1; threads <= 3; threads++ {
		w := testWorker(t, m, threads)
		s := New(m, settings(m, nil))
		w.Feed(s, []byte(text), nil)
		var k Suggester
		var found []suggest.Found
		for typed := range 20 {
			f, err := w.Suggest(t.Context(), s, &k, []byte(text[:typed]),
				suggest.Options{N: 5, Unit: suggest.Free})
			require.NoError(t, err)
			found = append(found, f)
		}
		all = append(all, found)
	}
	require.Equal(t, all[0], all[1])
	require.Equal(t, all[0], all[2])
}

func TestSuggestRefusesWhatItCannotDo(t *testing.T) {
	m := testModel(t)
	w := testWorker(t, m, 1)
	var k Suggester
	_, err := w.Suggest(t.Context(), New(m, settings(m, methodIs(Cache))), &k, nil,
		suggest.Options{})
	require.EqualError(t, err, "method is cache, expected a method without a cache")
	s := New(m, settings(m, nil))
	_, err = w.Suggest(t.Context(), s, &k, make([]byte, TypedMax+1), suggest.Options{})
	require.EqualError(t, err, "the typed text has 1025 bytes, expected at most 1024")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = w.Suggest(ctx, s, &k, nil, suggest.Options{N: 1, Unit: suggest.Free})
	require.ErrorIs(t, err, context.Canceled)
	found, err := w.Suggest(t.Context(), s, &k, []byte("\xc3"),
		suggest.Options{N: 1, Unit: suggest.Free})
	require.NoError(t, err)
	require.Empty(t, found, "within a character")
	w.Feed(s, append(bytes.Repeat([]byte("a"), testChunk-2), "\xe2\x80"...), nil)
	require.Empty(t, s.Pending)
	found, err = w.Suggest(t.Context(), s, &k, nil, suggest.Options{N: 1, Unit: suggest.Free})
	require.NoError(t, err)
	require.Empty(t, found, "within a character of the chunk before")
}

func TestSuggestComputesWhatEmbeddedModelsWould(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	for _, name := range weights.EmbeddedNames() {
		f, err := weights.Embedded(name)
		require.NoError(t, err)
		m, err := model.FromFile(f)
		require.NoError(t, err)
		w := testWorker(t, m, 2)
		for _, companion := range []bool{true, false} {
			s := New(m, settings(m, func(s *Settings) { s.Companion = companion }))
			w.Feed(s, []byte(text+text), nil)
			var k Suggester
			o := suggest.Options{N: 5, Unit: suggest.WordPlus, Calls: 2}
			for _, typed := range []string{"POST", "POST /"} {
				requireAsFed(t, w, s, searched(t, w, s, &k, typed, o))
			}
		}
	}
}
