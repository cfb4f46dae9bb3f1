package session

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func numbered(bytes int) []byte {
	var b strings.Builder
	for i := 0; b.Len() < bytes; i++ {
		fmt.Fprintf(&b, "\tline(%d, %q)\n", i, strings.Repeat("x", i%23))
	}
	return []byte(b.String()[:bytes])
}

func TestAnchorsStayWhileTheFrontMovesOn(t *testing.T) {
	const window = 12000
	text, begins := numbered(40000), map[int]bool{}
	for at := range len(text) - window {
		from := at + window - len(anchored(text[at:at+window]))
		require.LessOrEqual(t, from-at, window/4)
		if from > at {
			require.EqualValues(t, '\n', text[from-1])
		}
		begins[from] = true
	}
	// On average the beginning moves twice while the window advances by a quarter.
	require.Less(t, len(begins), 2*4*(len(text)-window)/window*2)
	require.Equal(t, text[:anchorBytes], anchored(text[:anchorBytes]))
	one := []byte(strings.Repeat("x", window))
	require.Equal(t, one, anchored(one), "a single line has no other beginning")
}

func TestSlidingPromptBeforeSuffixIsNotReadAgain(t *testing.T) {
	mg, text := newManager(t, Options{}), numbered(3*anchorBytes)
	const window = 2 * anchorBytes
	fill := func(at int) {
		r := BatchRequest{
			Prompts: [][]byte{text[at : at+window]}, N: 1, MaxTokens: 1, Suffix: []byte("\n"),
		}
		require.NoError(t, mg.CompleteBatch(background, Caller{}, "", r, noPieces))
	}
	fill(100)
	same := 0
	for at := 101; at < 120; at++ {
		prompt := anchored(text[at : at+window])
		if string(prompt[:anchorLine]) != string(anchored(text[at-1 : at-1+window])[:anchorLine]) {
			fill(at)
			continue
		}
		require.Greater(t, known(t, mg, Caller{}, "", string(prompt)), len(prompt)-2*testChunk)
		fill(at)
		same++
	}
	require.Greater(t, same, 15)
}
