package corpus

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestKeepBackSplitsTheText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.OneOf(rapid.IntRange(1, 300), rapid.IntRange(1, 20000)), 1,
			60).Draw(t, "sizes")
		c := corpusOf(sizes...)
		rest, kept := c.KeepBack(rapid.Uint64().Draw(t, "seed"))
		want := c.Bytes() / keepBackPart
		if kept == nil {
			require.Equal(t, c, rest)
			longest := slices.MaxFunc(c.Documents,
				func(a, b Document) int { return len(a.Text) - len(b.Text) })
			require.True(t, want == 0 || len(longest.Text) < 2)
			return
		}
		require.Equal(t, c.Domains(), rest.Domains())
		parts := map[string][]byte{}
		// rest comes first, because KeepBack keeps back the end of a cut document.
		for _, part := range []*Corpus{rest, kept} {
			for _, d := range part.Documents {
				require.NotEmpty(t, d.Text)
				parts[d.Name] = append(parts[d.Name], d.Text...)
			}
		}
		require.Len(t, parts, len(c.Documents))
		for _, d := range c.Documents {
			require.True(t, bytes.Equal(d.Text, parts[d.Name]), d.Name)
		}
		require.LessOrEqual(t, kept.Bytes(), want+want/keepBackFew)
		require.Positive(t, kept.Bytes())
	})
}

func TestKeepBackTakesWholeDocumentsWhereItCan(t *testing.T) {
	sizes := make([]int, 90)
	for i := range sizes {
		sizes[i] = 1000
	}
	c := corpusOf(sizes...)
	rest, kept := c.KeepBack(1)
	// a 25th of the text is 3600 bytes, and a document has 1000
	require.Len(t, kept.Documents, 4)
	require.Len(t, rest.Documents, 86)
	_, other := c.KeepBack(2)
	require.NotEqual(t, kept, other)
	_, same := c.KeepBack(1)
	require.Equal(t, kept, same)
}

func TestKeepBackOfLargeDocumentsIsTheirEnds(t *testing.T) {
	text := bytes.Repeat([]byte("a line of text\n"), 40000)
	c := &Corpus{Documents: []Document{NewDocument("a/1", text),
		NewDocument("b/2", text[:len(text)/2]), NewDocument("c/3", text[:20000])}}
	rest, kept := c.KeepBack(1)
	require.Len(t, rest.Documents, 3)
	require.Len(t, kept.Documents, 3)
	for i, d := range kept.Documents {
		require.Equal(t, c.Documents[i].Name, d.Name)
		require.True(t, bytes.HasPrefix(d.Text, []byte("a line")))
	}
	require.InDelta(t, c.Bytes()/keepBackPart, kept.Bytes(), 100)
	require.InEpsilon(t, 2*len(kept.Documents[1].Text), len(kept.Documents[0].Text), .25,
		"in proportion")

	// A 25th of a document is 2400 bytes, less than keepBackPiece. So some documents give about
	// keepBackPiece bytes, and others none.
	many := &Corpus{}
	for i := range 35 {
		many.Documents = append(many.Documents, NewDocument(fmt.Sprint("a/", i), text[:60000]))
	}
	_, kept = many.KeepBack(1)
	require.InDelta(t, many.Bytes()/keepBackPart/keepBackPiece, len(kept.Documents), 1)

	rest, kept = (&Corpus{Documents: c.Documents[:1]}).KeepBack(1)
	require.InDelta(t, len(text)/keepBackPart, kept.Bytes(), 20)
	require.Equal(t, len(text), rest.Bytes()+kept.Bytes())
}
