package tokenizer

import (
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func drawText(t *rapid.T) []byte {
	if rapid.Bool().Draw(t, "valid") {
		return []byte(rapid.String().Draw(t, "text"))
	}
	part := rapid.SampledFrom([]string{"a", "é", "€", "𝄞", "\xc3", "\xe2\x82", "\xf0\x9d\x84",
		"\xf4\x90", "\xe0\x80", "\xed\xa0\x80", "\x80", "\xff"})
	var text []byte
	for _, p := range rapid.SliceOf(part).Draw(t, "parts") {
		text = append(text, p...)
	}
	return text
}

func TestPiecesAreTheTextAndWholeCharacters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := drawText(t)
		var u UTF8
		var all []byte
		for fed := 0; fed < len(text); {
			n := rapid.IntRange(1, min(5, len(text)-fed)).Draw(t, "cut")
			piece := u.Append(nil, text[fed:fed+n])
			fed += n
			all = append(all, piece...)
			if utf8.Valid(text) {
				require.True(t, utf8.Valid(piece), "%q", piece)
			}
			held := text[len(all):fed]
			require.Equal(t, string(text[:len(all)]), string(all))
			if len(held) > 0 { // only the beginning of a character is held
				require.True(t, utf8.RuneStart(held[0]))
				require.False(t, utf8.FullRune(held), "%q could have passed", held)
			}
		}
		rest := u.Flush(nil)
		require.Equal(t, string(text), string(all)+string(rest))
		if utf8.Valid(text) {
			require.Empty(t, rest)
		}
		require.Empty(t, u.Flush(nil), "flushed twice")
	})
}

func TestCharactersAreHeldUntilTheyAreWhole(t *testing.T) {
	type step struct{ in, out string }
	for name, steps := range map[string][]step{
		"ASCII passes":                  {{"a", "a"}, {"b", "b"}},
		"two bytes":                     {{"\xc3", ""}, {"\xa9", "é"}},
		"four bytes, one by one":        {{"\xf0", ""}, {"\x9d", ""}, {"\x84", ""}, {"\x9e", "𝄞"}},
		"text before passes at once":    {{"ab\xe2\x82", "ab"}, {"\xacc", "€c"}},
		"the next byte breaks it":       {{"\xe2\x82", ""}, {"(", "\xe2\x82("}},
		"the next byte starts another":  {{"\xe2\x82", ""}, {"\xc3", "\xe2\x82"}, {"\xa9", "é"}},
		"stray continuation":            {{"\x80", "\x80"}, {"\xac", "\xac"}},
		"never UTF-8":                   {{"\xff", "\xff"}, {"\xc0", "\xc0"}},
		"surrogate, refused at byte 2":  {{"\xed", ""}, {"\xa0", "\xed\xa0"}},
		"over U+10FFFF, refused at 2":   {{"\xf4", ""}, {"\x90", "\xf4\x90"}},
		"nothing in, nothing out":       {{"", ""}, {"\xc3", ""}, {"", ""}, {"\xa9", "é"}},
		"appended to what is there yet": {{"é\xc3", "é"}, {"\xa9é", "éé"}},
	} {
		t.Run(name, func(t *testing.T) {
			var u UTF8
			for _, s := range steps {
				require.Equal(t, "> "+s.out, string(u.Append([]byte("> "), []byte(s.in))),
					"after %q", s.in)
			}
		})
	}
}
