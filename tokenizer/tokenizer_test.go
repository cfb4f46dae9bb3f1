package tokenizer

import (
	"encoding/json"
	"math"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestIdsAreTheBytes(t *testing.T) {
	var tok Bytes
	require.Equal(t, 256, tok.Vocab())
	require.Equal(t, []int32{'\n'}, tok.Encode(nil, []byte("\n")))
	require.Equal(t, int32('\n'), tok.Start())
	require.Equal(t, []int32{7, 'a', 0xc3, 0xa9, 0xff, 0}, tok.Encode([]int32{7},
		[]byte("aé\xff\x00")), "appended to what is there")
	require.Equal(t, 3, tok.Chars([]byte("aé!")), "a character is one of UTF-8")
}

func TestDecodeUndoesEncode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tok Bytes
		text := rapid.SliceOf(rapid.Byte()).Draw(t, "text")
		ids := tok.Encode(nil, text)
		require.Len(t, ids, len(text))
		require.Equal(t, append([]byte("before "), text...), tok.Decode([]byte("before "), ids))
	})
}

func TestForeignIdsPanicWithTheirPosition(t *testing.T) {
	require.PanicsWithValue(t, "tokenizer: id 256 at position 1, expected 0 to 255",
		func() { Bytes{}.Decode(nil, []int32{0, 256}) })
	require.PanicsWithValue(t, "tokenizer: id -1 at position 0, expected 0 to 255",
		func() { Bytes{}.Decode(nil, []int32{-1}) })
}

func TestNoAllocationIntoABufferThatIsLargeEnough(t *testing.T) {
	var tok Bytes
	text := []byte("the quick brown fox")
	ids, back := make([]int32, 0, 64), make([]byte, 0, 64)
	require.Zero(t, testing.AllocsPerRun(100,
		func() { back = tok.Decode(back[:0], tok.Encode(ids[:0], text)) }))
}

func TestDescriptionRoundTrip(t *testing.T) {
	require.Equal(t, `{"kind":"bytes"}`, Bytes{}.Describe())
	for _, text := range []string{Bytes{}.Describe(), " {\n \"kind\": \"bytes\" } "} {
		tok, err := Parse(text, nil)
		require.NoError(t, err)
		require.Equal(t, Bytes{}, tok)
	}
}

func TestOtherDescriptionsAreRefused(t *testing.T) {
	for text, says := range map[string]string{
		`{"kind":"bpe"}`:              `tokenizer: kind: found "bpe", expected "bytes" or "words"`,
		`{}`:                          `tokenizer: kind: found "", expected "bytes" or "words"`,
		`{"kind":"bytes","vocab":12}`: `unknown field "vocab"`,
		`{"kind":256}`:                `cannot unmarshal number`,
		`{"kind":"bytes"} {}`:         `expected one JSON object`,
		`{"kind":"bytes"} x`:          `expected one JSON object`,
		`bytes`:                       `invalid character`,
		``:                            `EOF`,
		`{"kind":"by`:                 `unexpected EOF`,
		`"bytes"`:                     `cannot unmarshal string`,
	} {
		_, err := Parse(text, nil)
		require.ErrorIs(t, err, ErrDescription, text)
		require.ErrorContains(t, err, says)
	}
}

func TestTallyAddsUpAndDivides(t *testing.T) {
	total := Tally{Bytes: 6, Chars: 3, Tokens: 2, Bits: 6}
	total.Add(Tally{Bytes: 2, Chars: 1, Tokens: 2, Bits: 2})
	require.Equal(t, Tally{Bytes: 8, Chars: 4, Tokens: 4, Bits: 8}, total)
	require.Equal(t, 2.0, total.BitsPerChar())
	require.Equal(t, 1.0, total.BitsPerByte())
	require.Equal(t, 4.0, total.Perplexity(), "2^(8 bits / 4 tokens)")
}

func TestUnknownWordsCountForPerplexityAlone(t *testing.T) {
	total := Tally{Bytes: 10, Chars: 8, Tokens: 2, Bits: 6}
	total.Add(Tally{
		Bytes: 5, Chars: 4, Tokens: 1, Bits: 3,
		Unknown: 1, UnknownBytes: 5, UnknownChars: 4, UnknownBits: 3,
	})
	require.Equal(t, 8.0, total.Perplexity(), "2^(9 bits / 3 tokens)")
	require.Equal(t, 0.6, total.BitsPerByte(), "6 bits of 10 bytes")
	require.Equal(t, 0.75, total.BitsPerChar(), "6 bits of 8 characters")
	unknown := Tally{Bytes: 5, Tokens: 1, Bits: 3, Unknown: 1, UnknownBytes: 5, UnknownBits: 3}
	require.Zero(t, unknown.BitsPerByte(), "not defined")
}

func TestRatiosCanStandInJSON(t *testing.T) {
	for name, tally := range map[string]Tally{
		"empty":           {},
		"beyond a double": {Bytes: 1, Chars: 1, Tokens: 1, Bits: 2000},
	} {
		_, err := json.Marshal([]float64{tally.BitsPerChar(), tally.BitsPerByte(),
			tally.Perplexity()})
		require.NoError(t, err, name)
	}
	require.Equal(t, []float64{0, 0, 1}, []float64{Tally{}.BitsPerChar(), Tally{}.BitsPerByte(),
		Tally{}.Perplexity()})
	require.Equal(t, math.MaxFloat64, Tally{Tokens: 1, Bits: 2000}.Perplexity())
}

func TestBytesCountTheirCharacters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		all, _ := feed(t, Bytes{}, []byte(text))
		var tally Tally
		tally.Count(&all, -1, make([]float32, len(text)))
		require.EqualValues(t, utf8.RuneCountInString(text), tally.Chars)
		require.Equal(t, utf8.RuneCountInString(text), Bytes{}.Chars([]byte(text)))
		require.EqualValues(t, len(text), tally.Bytes)
	})
}
