package txl

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func penalties(text string, strength float64, size int) map[byte]float32 {
	var r repeats
	for _, b := range []byte(text) {
		r.add(int32(b))
	}
	logProbs := make([]float32, 256)
	r.penalize(logProbs, strength, size)
	found := map[byte]float32{}
	for b, l := range logProbs {
		if l != 0 {
			found[byte(b)] = -l
		}
	}
	r.restore(logProbs)
	if slices.Max(logProbs) != 0 || slices.Min(logProbs) != 0 {
		panic("the log-probabilities are not as they were")
	}
	return found
}

func TestDryPenaltiesAreThoseOfTheFormula(t *testing.T) {
	const twelve = "abcdefghijkl"
	for name, c := range map[string]struct {
		drawn string
		size  int
		want  map[byte]float32
	}{
		"nothing":      {"", 1, nil},
		"eleven bytes": {twelve[1:] + "X" + twelve[1:], 1, nil},
		"twelve":       {twelve + "X" + twelve, 1, map[byte]float32{'X': .8}},
		"thirteen":     {"z" + twelve + "X" + "z" + twelve, 1, map[byte]float32{'X': 1.04}},
		"sixteen": {"zzzz" + twelve + "X" + "zzzz" + twelve, 1,
			map[byte]float32{'X': 2.28488}},
		"the longest": {
			twelve + "X" + "z" + twelve + "X" + "yz" + twelve + "Y" + "z" + twelve, 1,
			map[byte]float32{'X': 1.04, 'Y': 1.04},
		},
		"not at the end": {twelve + "X" + twelve + "Z", 1, nil},
		"a run":          {strings.Repeat("a", 13), 1, map[byte]float32{'a': .8}},
		"a longer run":   {strings.Repeat("a", 15), 1, map[byte]float32{'a': 1.352}},
		"two words":      {"abXab", 5, nil},
		"three words":    {"abcXabc", 5, map[byte]float32{'X': 1.7576}},
		"a long run": {strings.Repeat("a", 9000), 1,
			map[byte]float32{'a': float32(math.Inf(1))}},
		"words, a run":    {"aaaa", 5, map[byte]float32{'a': 1.7576}},
		"words, no space": {"aaa", 5, nil},
	} {
		got := penalties(c.drawn, .8, c.size)
		require.Len(t, got, len(c.want), "%s: %v", name, got)
		for b, want := range c.want {
			if math.IsInf(float64(want), 1) {
				require.Equal(t, want, got[b], name)
				continue
			}
			require.InDelta(t, want, got[b], 1e-6, name)
		}
	}
}

// The test compares the penalties with a direct implementation of the definition.
func TestDryFindsWhatTheDefinitionSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := []byte(rapid.StringMatching(`[ab]{0,8}`).Draw(t, "text"))
		for range rapid.IntRange(0, 6).Draw(t, "copies") {
			from := rapid.IntRange(0, len(text)).Draw(t, "from")
			text = append(text, text[from:]...)
			text = append(text, rapid.StringMatching(`[abc]?`).Draw(t, "then")...)
		}
		text = text[:min(len(text), 200)]
		want := map[byte]float32{}
		for at := 1; at < len(text); at++ {
			for m := dryFrom; m <= at; m++ {
				if bytes.Equal(text[at-m:at], text[len(text)-m:]) {
					penalty := float32(.8 * math.Pow(dryBase, float64(m-dryFrom)))
					want[text[at]] = max(want[text[at]], penalty)
				}
			}
		}
		got := penalties(string(text), .8, 1)
		require.Len(t, got, len(want))
		for b, penalty := range want {
			require.InEpsilon(t, penalty, got[b], 1e-5)
		}
	})
}

func TestSamplerWithDryLeavesLoop(t *testing.T) {
	next := func(last int32) []float32 {
		l := logs(1, 1, 1, 1)
		l[(last+1)%3] = -.01
		return l
	}
	for dry, loops := range map[float64]bool{0: true, 1e-9: true, .8: false, DryMax: false} {
		s, last, drawn := NewSampler(Sampling{Dry: dry}, 4), int32(2), []byte{}
		for range 60 {
			l, before := next(last), next(last)
			last = s.Next(l)
			require.Equal(t, before, l)
			drawn = append(drawn, 'a'+byte(last))
		}
		require.Equal(t, loops, string(drawn) == strings.Repeat("abc", 20), "%v: %s", dry, drawn)
	}
	require.Error(t, Sampling{Dry: -1}.Validate())
	require.Error(t, Sampling{Dry: math.NaN()}.Validate())
	require.Error(t, Sampling{TokenSize: -1}.Validate())
}
