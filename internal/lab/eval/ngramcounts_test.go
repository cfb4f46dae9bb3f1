package eval

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func counted(text string) *ngramCounts {
	c := newNGramCounts()
	for b := []byte(text); len(b) > 0; b = b[tokenSize(b):] {
		c.add(string(b[:tokenSize(b)]))
	}
	return c
}

// listed computes the counts c(hw) of ngramcounts.go from a list of tokens, for contexts h of k
// tokens. The result is indexed by context and token.
func listed(tokens []string, k int) map[string]map[string]float64 {
	counts, seen := map[string]map[string]float64{}, map[string]bool{}
	for i, w := range tokens {
		h := tokens[max(0, i-ngramOrder):i]
		if len(h) < k {
			continue
		}
		if len(h) > k { // in shorter contexts, each different preceding token counts once
			longer := strings.Join(h[len(h)-k-1:], "|") + "|" + w
			if seen[longer] {
				continue
			}
			seen[longer] = true
		}
		of := contextName(h, k)
		if counts[of] == nil {
			counts[of] = map[string]float64{}
		}
		counts[of][w]++
	}
	return counts
}

func contextName(h []string, k int) string {
	word := len(h) > 0 && wordByte(h[len(h)-1][0])
	return fmt.Sprint(word, "|", strings.Join(h[len(h)-k:], "|"))
}

// kneserNey computes P(w|h) directly by the equation in ngramcounts.go. The parameter spelt is the
// probability of the spelling of w.
func kneserNey(tokens, h []string, k int, w string, spelt float64) float64 {
	if k < 0 {
		return spelt
	}
	lower := kneserNey(tokens, h, k-1, w, spelt)
	all := listed(tokens, k)
	of := all[contextName(h, k)]
	if of == nil {
		return lower
	}
	n := [5]float64{0, 8, 3, 1.5, 1}
	for _, counts := range all {
		for _, c := range counts {
			if c <= 4 {
				n[int(c)]++
			}
		}
	}
	y := n[1] / (n[1] + 2*n[2])
	discount := func(c float64) float64 {
		i := min(c, 3)
		d := i - (i+1)*y*n[int(i)+1]/n[int(i)]
		return min(max(d, 0.05), i-0.05)
	}
	total, left := 0., 0.
	for _, c := range of {
		total += c
		left += discount(c)
	}
	p := left / total * lower
	if c := of[w]; c > 0 {
		p += (c - discount(c)) / total
	}
	return p
}

// The probability of a token satisfies the equation in ngramcounts.go. It also equals the product
// of the probabilities of the token's bytes and of its end. The probabilities of the next bytes and
// of the end sum to the probability of the beginning.
func TestNGramProbabilitiesAreKneserNeys(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	words, between := []string{"a", "ab", "abc", "b", "été"}, []string{" ", ", ", ".\n"}
	var text strings.Builder
	for range 60 {
		text.WriteString(words[int(float64(len(words))*rng.Float64()*rng.Float64())])
		text.WriteString(between[rng.IntN(len(between))])
	}
	c := counted(text.String())
	var tokens []string
	for b := []byte(text.String()); len(b) > 0; b = b[tokenSize(b):] {
		tokens = append(tokens, string(b[:tokenSize(b)]))
	}
	for _, context := range [][]string{
		{}, {" "}, {"a"}, {",", " "}, {"ab", ",", " "}, {" ", "a", ",", " "}, {"unseen", " "},
		{".", "\n", "b", " "}, {"unseen"},
	} {
		keys := c.at(context)
		sum := func(begin string) float64 {
			next, all := c.begin(keys, begin), 0.
			for _, p := range next {
				all += p
			}
			require.InDelta(t, c.probability(keys, begin), next[tokenEnds], 1e-12, begin)
			return all
		}
		require.InDelta(t, 1, sum(""), 1e-9)
		for _, begin := range []string{"a", "ab", "abc", " ", "x", "\xc3", "été"} {
			before := c.begin(keys, begin[:len(begin)-1])
			require.InDelta(t, before[begin[len(begin)-1]], sum(begin), 1e-9, begin)
			want := kneserNey(tokens, context, len(keys)-1, begin, c.spelling.probability(begin))
			require.InDelta(t, want, c.probability(keys, begin), 1e-9, "%q %q", context, begin)
		}
	}
}
