package eval

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/arithmetic/suggest"
)

// The writer accepts the candidate that takes it farthest, with the separator that comes with a
// word if that is the text's, and types a wrong one over. All else is typed, a character a key.
func TestAWriterAcceptsWhatTakesItFarthest(t *testing.T) {
	word := func(text, separator string) suggest.Candidate {
		return suggest.Candidate{Text: text, Separator: separator, Probability: 0.35}
	}
	free := func(text string) suggest.Candidate { return suggest.Candidate{Text: text, Probability: 0.95} }
	for _, c := range []struct {
		mode, text string
		offers     map[string][]suggest.Candidate // behind what was typed
		keys       string                         // what each key brings
	}{
		{"word", "so hallo welt.", nil, "s|o| |h|a|l|l|o| |w|e|l|t|."},
		{"word", "so hallo welt.", map[string][]suggest.Candidate{
			"so ":  {word("hall", "o"), word("hallo", " "), word("hal", " ")},
			"so h": {word("allo", " ")},
		}, "s|o| |hallo |w|e|l|t|."},
		{"word", "so hallo welt.", map[string][]suggest.Candidate{
			"so ":            {word("hallo", ",")},
			"so hallo":       {free(" welt")}, // nothing is offered behind the wrong separator
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
		typed, err := e.types([]byte(c.text), "counts", c.mode, func(typed []byte, _ []string) (suggest.Found, error) {
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

// What was offered and typed past is refused until the text goes another way.
func TestTheWriterRefusesWhatItTypedPast(t *testing.T) {
	e := typing{TypingOptions: TypingOptions{Window: 5}}
	var got [][]string
	_, err := e.types([]byte("abcde"), "counts", "free", func(typed []byte, refused []string) (suggest.Found, error) {
		got = append(got, refused)
		return suggest.Found{Candidates: map[string][]suggest.Candidate{
			"": {{Text: "abcx"}, {Text: "ay"}, {Text: "b"}}, "a": {{Text: "bz"}, {Text: "bc"}},
		}[string(typed)]}, nil
	})
	require.NoError(t, err)
	require.Equal(t, [][]string{nil, {"bcx", "y"}, {"x"}, nil}, got)
}

// Of a window, the last candidate counts whole.
func TestAWindowEndsBehindItsLastCandidate(t *testing.T) {
	e := typing{TypingOptions: TypingOptions{Window: 3}}
	typed, err := e.types([]byte("abcdef"), "counts", TypingInline, func(typed []byte, _ []string) (suggest.Found, error) {
		if len(typed) < 2 {
			return suggest.Found{Candidates: []suggest.Candidate{{Text: "x", Probability: 0.8}}}, nil
		}
		return suggest.Found{Candidates: []suggest.Candidate{{Text: "cdef", Probability: 0.8}}}, nil
	})
	require.NoError(t, err)
	require.Equal(t, 6, typed.Characters)
	require.Equal(t, 3, typed.Keys)
	require.EqualValues(t, 100, typed.Shown)
	require.InDelta(t, 100/3., typed.Right, 1e-9)
	require.EqualValues(t, 3, e.done)
	require.Equal(t, Bucket{3, 2.4000000000000004, 1}, e.calibration[[2]string{"counts", TypingInline}][8])
}

// typingFolder has one document that repeats, and one that is too short.
func typingFolder(t *testing.T) string {
	dir := t.TempDir()
	var text strings.Builder
	for i := range 60 {
		fmt.Fprintf(&text, "the window of line %d is wide\n", i)
	}
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "long"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "long", "a.txt"), []byte(text.String()), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "short.txt"), []byte("too short"), 0o600))
	return dir
}

func TestTypingCountsTheKeysOfEveryDocument(t *testing.T) {
	m := small(t, 0.1)
	var done, total int64
	o := TypingOptions{Read: []int64{0, 1000}, Window: 60, Progress: func(d, all int64) { done, total = d, all }}
	o.Methods = []string{stream.Counts, stream.Static, stream.SparseMeta + WithCompanion}
	res, err := Typing(t.Context(), m, typingFolder(t), o)
	require.NoError(t, err)
	require.Equal(t, total, done)
	require.Len(t, res.Scores, 2*3)
	require.Len(t, res.Domains, 2*3)
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

	again, err := Typing(t.Context(), m, typingFolder(t), TypingOptions{Read: []int64{1000}, Window: 60,
		Methods: o.Methods, Threads: 3})
	require.NoError(t, err)
	require.Equal(t, after.Free.Keys, again.Scores[0].Free.Keys)
	require.Equal(t, res.Scores[5].WordPlus.Keys, again.Scores[2].WordPlus.Keys)
}

func TestTypingSaysWhatWasWrong(t *testing.T) {
	m := small(t, 0)
	for want, o := range map[string]TypingOptions{
		"read is -1, expected 0 or more":                 {Read: []int64{5, -1}},
		"window is -1, expected at least 1":              {Window: -1},
		"threshold is 1, expected 0.002 to less than 1":  {Threshold: 1},
		"method is cache, expected another one":          {Methods: []string{stream.Cache}},
		"methods: static stands twice, expected each":    {Methods: []string{stream.Static, stream.Static}},
		"method is sparse-meta, but model small has no ": {Methods: []string{stream.SparseMeta}},
	} {
		require.ErrorContains(t, o.Validate(m), want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Typing(ctx, m, typingFolder(t), TypingOptions{Read: []int64{9}, Window: 9})
	require.ErrorIs(t, err, context.Canceled)
}
