package corpus

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/tokenizer"
)

func quiet(int) error { return nil }

func prose() *Corpus {
	c := &Corpus{Dir: "memory"}
	for d, words := range []string{"a b a", "b  cc \n", "ünder é\u00a0a"} {
		text := strings.Repeat(words+" and\n", 1+pieceBytes/len(words))
		c.Documents = append(c.Documents, NewDocument(fmt.Sprintf("d%d/x", d%2),
			[]byte(text+"end")))
	}
	return c
}

// Encoding a document piece by piece gives the same tokens as encoding the whole document.
func TestEncodedTextIsItsTokens(t *testing.T) {
	c, text := prose(), prose()
	counts, err := c.Count(quiet)
	require.NoError(t, err)
	words, unknown, err := counts.Vocabulary(tokenizer.VocabularyOptions{Size: 6})
	require.NoError(t, err)
	last := 0
	require.NoError(t, c.Encode(words, func(read int) error {
		require.Greater(t, read, last)
		last = read
		return nil
	}))
	require.Equal(t, text.Bytes(), last)
	require.Equal(t, text.Bytes(), c.Bytes())
	require.EqualValues(t, counts.Words()+counts.Lines(), c.Tokens())
	require.EqualValues(t, unknown, c.Occurrences(words.Unknown()))
	require.EqualValues(t, counts.Lines(), c.Occurrences(words.Start()))
	require.Equal(t, "tokens", c.Unit())
	for i, d := range c.Documents {
		require.Nil(t, d.Text)
		var all tokenizer.Tokens
		var pending tokenizer.Pending
		words.Next(&all, &pending, text.Documents[i].Text, len(text.Documents[i].Text))
		words.End(&all, &pending)
		require.Equal(t, all.IDs, d.ids)
	}
}

func TestEncodedBytesAreReadAsBytes(t *testing.T) {
	plain, encoded := corpusOf(300, 20, 111), corpusOf(300, 20, 111)
	require.NoError(t, encoded.Encode(tokenizer.Bytes{}, quiet))
	a, err := NewReader(plain, 3, 16, startToken, .5, 1)
	require.NoError(t, err)
	b, err := NewReader(encoded, 3, 16, startToken, .5, 1)
	require.NoError(t, err)
	p, q := NewPieces(plain, nil, 8, 50, startToken, 1), NewPieces(encoded, nil, 8, 50, startToken,
		1)
	var in, out, in2, out2 [48]int32
	for range 40 {
		a.Next(in[:], out[:])
		b.Next(in2[:], out2[:])
		require.Equal(t, [2][48]int32{in, out}, [2][48]int32{in2, out2})
		require.Equal(t, p.Next(in[:], out[:]), q.Next(in2[:], out2[:]))
		require.Equal(t, [2][48]int32{in, out}, [2][48]int32{in2, out2})
	}
	one, two := plain.Documents[0].Head(40), encoded.Documents[0].Head(40)
	require.Equal(t, 40, two.Len())
	require.Equal(t, one.Read(10, startToken, in[:], out[:]), two.Read(10, startToken, in2[:],
		out2[:]))
	require.Equal(t, [2][48]int32{in, out}, [2][48]int32{in2, out2})
}

func TestPiecesOfWordsBeginLines(t *testing.T) {
	c := &Corpus{Documents: []Document{NewDocument("x", bytes.Repeat([]byte("a b c d e f g\n"),
		100))}}
	counts, err := c.Count(quiet)
	require.NoError(t, err)
	words, _, err := counts.Vocabulary(tokenizer.VocabularyOptions{})
	require.NoError(t, err)
	require.NoError(t, c.Encode(words, quiet))
	p := NewPieces(c, nil, 10, 30, words.Start(), 3)
	for range 50 {
		p.State.Pos = p.State.End
		p.begin()
		require.Zero(t, p.State.Pos%8, "seven words and the end of the line")
	}
}

func TestReadingEndsWithErrorOfReceiver(t *testing.T) {
	stop := errors.New("stop")
	_, err := prose().Count(func(int) error { return stop })
	require.Equal(t, stop, err)
	require.Equal(t, stop, prose().Encode(tokenizer.Bytes{}, func(int) error { return stop }))
}
