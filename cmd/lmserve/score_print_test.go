package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/model/modeltest"
)

// The command score counts UTF-8 characters in the same way for chunks, for lines and with
// --total-only.
func TestScoreCountsCharactersAlike(t *testing.T) {
	file, err := modeltest.SmallFile(t.TempDir())
	require.NoError(t, err)
	text := strings.Repeat("Съешь же ещё этих мягких французских булок, да выпей чаю.\n", 3)
	chars := float64(utf8.RuneCountInString(text))
	args := []string{"score", "--model", file, "--json", "--seed", "1"}
	for _, how := range [][]string{nil, {"--lines"}, {"--total-only"}} {
		told := jsonLines(t, must(t, text, append(args, how...)...))
		total := told[len(told)-1]
		require.InEpsilon(t, total.Bits/chars, *total.BPC, 1e-12, "%v", how)
	}
	// A chunk in which no character begins has no bits per character.
	told := must(t, "é", append(args[:3:3], "--chunk", "1")...)
	require.Regexp(t, `\n +1 +-\n`, told)
	require.Nil(t, jsonLines(t, must(t, "é", append(args, "--chunk", "1")...))[1].BPC)
}

// In the header, "static" is the static model without a companion. The next column has the name of
// the session's method.
func TestScoreNamesWhatItCompares(t *testing.T) {
	file, err := modeltest.SmallFile(t.TempDir())
	require.NoError(t, err)
	for header, how := range map[string][]string{
		"    offset  static  adaptive+companion  bits per character\n": nil,
		"    offset  static  adaptive  bits per character\n":           {"--companion=false"},
		"    offset  static  static+companion  bits per character\n": {"--method",
			"static+companion"},
		"    offset  static  static  bits per character\n": {"--static"},
	} {
		table := must(t, "abc", append([]string{"score", "--model", file, "--compare"}, how...)...)
		require.True(t, strings.HasPrefix(table, header), "%s", table)
		row := strings.Split(table, "\n")[1]
		require.Len(t, row, strings.Index(header, "  bits per"),
			"the numbers are below their names")
	}
	byLine := must(t, "abc\n", "score", "--model", file, "--compare", "--lines")
	require.Regexp(t, `total +1 line, .* [\d.]+ bits per character \(static [\d.]+\)\n$`, byLine)
}
