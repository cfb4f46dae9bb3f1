package session

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func cutAll(text string, stops []string) (pieces []Piece, tokens int, stopped bool) {
	c := cutter{stops: stops, logProbs: true}
	for i := range len(text) {
		var p Piece
		p, stopped = c.push(int32(text[i]), []byte(text[i:i+1]), float64(i))
		pieces = append(pieces, p)
		if stopped {
			return pieces, i + 1, true
		}
	}
	return append(pieces, c.end()), len(text), false
}

func joined(pieces []Piece) (text string, logProbs []float64) {
	for _, p := range pieces {
		text += string(p.Text)
		logProbs = append(logProbs, p.LogProbs...)
	}
	return text, logProbs
}

// stopAt returns where sampling of a text, byte by byte, ends. The first byte that completes a stop
// string ends sampling. The text then ends before the longest stop string that this byte completes.
func stopAt(text string, stops []string) (end, tokens int, stopped bool) {
	for n := 1; n <= len(text); n++ {
		longest := 0
		for _, stop := range stops {
			if strings.HasSuffix(text[:n], stop) {
				longest = max(longest, len(stop))
			}
		}
		if longest > 0 {
			return n - longest, n, true
		}
	}
	return len(text), len(text), false
}

func TestTextEndsBeforeTheFirstStopString(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		small := rapid.StringMatching(`[abé]{0,30}`)
		text := small.Draw(t, "text")
		stops := rapid.SliceOfN(rapid.StringMatching(`[abé]{1,4}`), 0, 3).Draw(t, "stops")
		pieces, tokens, stopped := cutAll(text, stops)
		end, wantTokens, wantStopped := stopAt(text, stops)
		got, logProbs := joined(pieces)
		require.Equal(t, text[:end], got)
		require.Equal(t, wantTokens, tokens)
		require.Equal(t, wantStopped, stopped)
		require.Len(t, logProbs, len(got))
		for i, lp := range logProbs {
			require.Equal(t, float64(i), lp, "each byte its own")
		}
		for _, p := range pieces {
			require.True(t, utf8.Valid(p.Text), "whole characters")
		}
	})
}

func TestPiecesAreHeldBackWhileTheyMayBeginAStopString(t *testing.T) {
	for _, c := range []struct {
		text, stop string
		pieces     []string
	}{
		{"abc", "", []string{"a", "b", "c", ""}},
		{"xEN.", "END", []string{"x", "", "", "EN.", ""}},
		{"xENDy", "END", []string{"x", "", "", ""}},
		{"aaab", "aab", []string{"", "", "a", ""}},
		{"né", "\n", []string{"n", "", "é", ""}},
		{"é\xc3", "\n", []string{"", "é", "", ""}},
	} {
		var stops, got []string
		if c.stop != "" {
			stops = []string{c.stop}
		}
		pieces, _, _ := cutAll(c.text, stops)
		for _, p := range pieces {
			got = append(got, string(p.Text))
		}
		require.Equal(t, c.pieces, got, "%q with %q", c.text, c.stop)
	}
}

// Sampled text ends with a whole character, even if max_tokens or a stop string cuts a character.
// No byte of an echoed prompt is dropped.
func TestNoTextEndsWithinACharacter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		prompt := rapid.StringMatching(`[aжЖ語🎄]{0,3}`).Draw(t, "prompt")
		prompt = prompt[:rapid.IntRange(0, len(prompt)).Draw(t, "bytes of the prompt")]
		text := rapid.StringMatching(`[aжЖ語🎄.]{0,9}`).Draw(t, "text")
		text = text[:rapid.IntRange(0, len(text)).Draw(t, "tokens")]
		c := cutter{stops: []string{"."}, logProbs: true}
		echoed := c.echo([]byte(prompt), tokenScores{logProbs: make([]float64, len(prompt))})
		got, stopped := string(echoed.Text), false
		for i := 0; i < len(text) && !stopped; i++ {
			var p Piece
			p, stopped = c.push(int32(text[i]), []byte(text[i:i+1]), 0)
			got += string(p.Text)
		}
		if !stopped {
			got += string(c.end().Text)
		}
		require.True(t, strings.HasPrefix(got, prompt))
		sampled := got[len(prompt):]
		require.True(t, strings.HasPrefix(text, sampled))
		if utf8.ValidString(prompt) {
			require.True(t, utf8.ValidString(sampled), "%q", sampled)
			require.Less(t, len(strings.SplitN(text, ".", 2)[0])-len(sampled), utf8.UTFMax)
		}
	})
}
