package eval

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/arithmetic/suggest"
)

// The writer accepts the longest correct candidate. The writer keeps the separator after a
// candidate's word if it is correct, and types over a wrong separator. All other characters take
// one key each.
func TestWriterAcceptsWhatTakesItFarthest(t *testing.T) {
	word := func(text, separator string) suggest.Candidate {
		return suggest.Candidate{Text: text, Separator: separator, Probability: 0.35}
	}
	free := func(text string) suggest.Candidate {
		return suggest.Candidate{Text: text,
			Probability: 0.95}
	}
	for _, c := range []struct {
		mode, text string
		offers     map[string][]suggest.Candidate
		keys       string // the text that each key adds, separated by |
	}{
		{"word", "so hallo welt.", nil, "s|o| |h|a|l|l|o| |w|e|l|t|."},
		{"word", "so hallo welt.", map[string][]suggest.Candidate{
			"so ":  {word("hall", "o"), word("hallo", " "), word("hal", " ")},
			"so h": {word("allo", " ")},
		}, "s|o| |hallo |w|e|l|t|."},
		{"word", "so hallo welt.", map[string][]suggest.Candidate{
			"so ": {word("hallo", ",")},
			// ignored: after a wrong separator, the writer sees no candidates
			"so hallo":       {free(" welt")},
			"so hallo w":     {word("elt", ".")},
			"so hallo welt.": {word("x", " ")},
		}, "s|o| |hallo| |w|elt."},
		{"word", "a b", map[string][]suggest.Candidate{"": {word("a", ".")}}, "a| |b"},
		{"free", "größer, größte", map[string][]suggest.Candidate{
			"g": {free("rö"), free("röß"), free("roß"), free("röße ")},
		}, "g|röß|e|r|,| |g|r|ö|ß|t|e"},
		{"free", "abcdefgh", map[string][]suggest.Candidate{"abc": {free("defgh")}}, "a|b|c|defgh"},
	} {
		e := typing{TypingOptions: TypingOptions{Window: 14}}
		var at []string
		typed, err := e.types([]byte(c.text), c.mode, func(typed []byte, _ []string) (suggest.Found,
			error) {
			at = append(at, string(typed))
			return suggest.Found{Candidates: c.offers[string(typed)], Calls: 1, Rows: 2}, nil
		})
		require.NoError(t, err)
		keys := strings.Split(c.keys, "|")
		require.Equal(t, len(keys), typed.Keys, "%s: %q", c.text, at)
		require.Equal(t, len([]rune(c.text)), typed.Characters)
		require.InDelta(t, 100*(1-float64(len(keys))/float64(typed.Characters)), typed.Saved, 1e-9)
		require.EqualValues(t, 2, typed.Rows)
		for i := range at {
			require.True(t, strings.HasPrefix(c.text, at[i]))
		}
	}
}

// If the writer types on instead of accepting an offer, the offer stays refused while the typed
// text matches it.
func TestWriterRefusesWhatItTypedPast(t *testing.T) {
	e := typing{TypingOptions: TypingOptions{Window: 5}}
	var got [][]string
	_, err := e.types([]byte("abcde"), "free", func(typed []byte, refused []string) (suggest.Found,
		error) {
		got = append(got, refused)
		return suggest.Found{Candidates: map[string][]suggest.Candidate{
			"": {{Text: "abcx"}, {Text: "ay"}, {Text: "b"}}, "a": {{Text: "bz"}, {Text: "bc"}},
		}[string(typed)]}, nil
	})
	require.NoError(t, err)
	require.Equal(t, [][]string{nil, {"bcx", "y"}, {"x"}, nil}, got)
}

// An accepted candidate may exceed the window; all its characters count.
func TestWindowEndsBehindItsLastCandidate(t *testing.T) {
	e := typing{TypingOptions: TypingOptions{Window: 3}}
	typed, err := e.types([]byte("abcdef"), TypingInline,
		func(typed []byte, _ []string) (suggest.Found, error) {
			if len(typed) < 2 {
				return suggest.Found{Candidates: []suggest.Candidate{{Text: "x",
					Probability: 0.8}}}, nil
			}
			return suggest.Found{Candidates: []suggest.Candidate{{Text: "cdef", Probability: 0.8}}},
				nil
		})
	require.NoError(t, err)
	require.Equal(t, 6, typed.Characters)
	require.Equal(t, 3, typed.Keys)
	require.EqualValues(t, 100, typed.Shown)
	require.InDelta(t, 100/3., typed.Right, 1e-9)
	require.EqualValues(t, 3, e.done)
}

// In a random text of a and b, "aa" follows a quarter of all positions. At positions where the
// writer stops, "aa" is rarer, since the writer stops after wrong offers. So calibration uses all
// positions.
func TestCalibrationIsOfAllPlaces(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var text []byte
	for range 4000 {
		text = append(text, "ab"[random.IntN(2)])
	}
	e := typing{TypingOptions: TypingOptions{Window: len(text)}}
	always := func(guess string) offers {
		return func([]byte, []string) (suggest.Found, error) {
			return suggest.Found{Candidates: []suggest.Candidate{{Text: guess, Probability: 0.25}}},
				nil
		}
	}
	free := string(suggest.Free)
	require.NoError(t, e.calibrates(text, "counts", free, always("aa")))
	b := e.calibration[[2]string{"counts", free}][2]
	require.Equal(t, len(text)/calibrationStride, b.Candidates)
	require.InDelta(t, b.Said, b.Right, 35)
	require.EqualValues(t, len(text), e.done)
	typed, err := e.types(text, free, always("aa"))
	require.NoError(t, err)
	require.Less(t, typed.Right, 21.)

	require.NoError(t, e.calibrates([]byte("so so so so "), "counts", string(suggest.Word),
		func(typed []byte, _ []string) (suggest.Found, error) {
			require.Zero(t, len(typed)%calibrationStride)
			return suggest.Found{Candidates: []suggest.Candidate{
				{Text: "s", Probability: 0.95}, {Text: "so", Probability: 0.95},
				{Text: "o", Probability: 0.95},
			}}, nil
		}))
	b = e.calibration[[2]string{"counts", string(suggest.Word)}][9]
	require.Equal(t, 9, b.Candidates)
	require.EqualValues(t, 2, b.Right, "so at 0, o at 4, none at the space of 8")
}

func typingFolder(t *testing.T) string {
	dir := t.TempDir()
	var text strings.Builder
	for i := range 60 {
		fmt.Fprintf(&text, "the window of line %d is wide\n", i)
	}
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "long"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "long", "a.txt"), []byte(text.String()),
		0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "short.txt"), []byte("too short"), 0o600))
	return dir
}

func TestTypingCountsTheKeysOfEveryDocument(t *testing.T) {
	m := small(t, 0.1)
	var done, total int64
	o := TypingOptions{Read: []int64{0, 1000}, Window: 60, Progress: func(d, all int64) {
		done,
			total = d, all
	}}
	o.Methods = []string{stream.Counts, stream.Static, stream.SparseMeta + WithCompanion}
	res, err := Typing(t.Context(), m, typingFolder(t), o)
	require.NoError(t, err)
	require.Equal(t, total, done)
	require.Len(t, res.Scores, 2*3)
	require.Len(t, res.Domains, 2*3)
	require.Equal(t, []TooShort{{"short.txt", 9, 0}, {"short.txt", 9, 1000}}, res.TooShort)
	for i, s := range res.Scores {
		require.Equal(t, "long/a.txt", s.Document)
		require.Equal(t, o.Methods[i%3], s.Method)
		require.Equal(t, o.Read[i/3], s.Read)
		require.InDelta(t, s.Free.Saved, res.Total[i].Free.Saved, 1e-9)
	}
	after := res.Scores[3]
	require.Greater(t, after.Free.Saved, 60., "counts have seen such lines")
	require.Greater(t, after.Free.Saved, res.Scores[0].Free.Saved)
	require.Less(t, res.Scores[4].Free.Saved, 20., "a random network knows nothing")
	require.Greater(t, after.Inline.Right, 30.)
	require.NotEmpty(t, res.Calibration)

	again, err := Typing(t.Context(), m, typingFolder(t), TypingOptions{Read: []int64{1000},
		Window:  60,
		Methods: o.Methods, Threads: 3})
	require.NoError(t, err)
	require.Equal(t, after.Free.Keys, again.Scores[0].Free.Keys)
	require.Equal(t, res.Scores[5].WordPlus.Keys, again.Scores[2].WordPlus.Keys)
}

func TestMeanOfCorrectOffersSkipsEmptyDocuments(t *testing.T) {
	e := typing{TypingOptions: TypingOptions{Read: []int64{9}, Methods: []string{"counts"}}}
	score := func(shown, right, saved float64) TypingScore {
		return TypingScore{Read: 9, Method: "counts", Inline: Typed{Shown: shown, Right: right,
			Saved: saved}}
	}
	mean := e.means("logs", []TypingScore{score(30, 80, 40), score(0, 0, 0), score(60, 60, 50)})[0]
	require.Equal(t, 3, mean.Documents)
	require.InDelta(t, 70, mean.Inline.Right, 1e-9)
	require.InDelta(t, 30, mean.Inline.Shown, 1e-9)
	require.InDelta(t, 30, mean.Inline.Saved, 1e-9)
}

func TestTypingWantsLongDocuments(t *testing.T) {
	o := TypingOptions{Read: []int64{1000, 3000}, Window: 1000, Methods: []string{stream.Counts}}
	res, err := Typing(t.Context(), small(t, 0), typingFolder(t), o)
	require.ErrorContains(t, err, "is long enough: long/a.txt has 1790 bytes, "+
		"expected 1000 bytes to read and 1000 characters to type: choose smaller numbers")
	require.Len(t, res.TooShort, 4)
}

func TestTypingSaysWhatWasWrong(t *testing.T) {
	m := small(t, 0)
	for want, o := range map[string]TypingOptions{
		`prior is "", expected a folder`: {Methods: []string{NGramPrior}},
		`prior is "x", expected a folder`: {
			Methods: []string{NGram}, Prior: "x",
		},
		"read is -1, expected 0 or more":          {Read: []int64{5, -1}},
		"window is -1, expected at least 1":       {Window: -1},
		"threshold is 1, expected at least 0.002": {Threshold: 1},
		"method is cache, expected a method":      {Methods: []string{stream.Cache}},
		"methods: static is given twice, expected each": {Methods: []string{stream.Static,
			stream.Static}},
		"method is sparse-meta, but model small has no ": {Methods: []string{stream.SparseMeta}},
	} {
		require.ErrorContains(t, o.Validate(m), want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Typing(ctx, m, typingFolder(t), TypingOptions{Read: []int64{9}, Window: 9})
	require.ErrorIs(t, err, context.Canceled)
}

// A number of bytes to read may end inside a character. Then the session reads less.
func TestTypingBeginsAtACharacter(t *testing.T) {
	dir := t.TempDir()
	text := strings.Repeat("größe ", 100)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), []byte(text), 0o600))
	res, err := Typing(t.Context(), small(t, 0), dir, TypingOptions{Read: []int64{2, 3}, Window: 5,
		Methods: []string{stream.Counts}})
	require.NoError(t, err)
	require.Empty(t, res.TooShort)
	require.Len(t, res.Scores, 2)
}
