package problem

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/server/limits"
)

func TestFieldPathsReadAsOneWritesThem(t *testing.T) {
	for want, path := range map[string][]string{
		"body":               nil,
		"seed":               {"seed"},
		"settings.gammas[1]": {"settings", "gammas", "1"},
		"labels.":            {"labels", ""},
	} {
		require.Equal(t, want, FieldPath(path))
	}
}

func TestLongTextIsCutBetweenCharacters(t *testing.T) {
	require.Equal(t, "ñañ…", Clipped("ñañañ", 3))
	require.Equal(t, "ñañ", Clipped("ñañ", 3))
	long := strings.Repeat("x", limits.FoundCharsMax+1)
	require.Equal(t, long[1:]+"…", Shortened(long))
	require.Equal(t, `"a\"b"`, Quoted(`a"b`))
}

func TestAlternativesAreListedInWords(t *testing.T) {
	require.Equal(t, "a", OneOf([]string{"a"}))
	require.Equal(t, "a or b", OneOf([]string{"a", "b"}))
	require.Equal(t, "a, b or c", OneOf([]string{"a", "b", "c"}))
}
