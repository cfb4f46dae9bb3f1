package tokenizer

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func few(t testing.TB) *Words {
	long := strings.Repeat("w", MaxWordBytes)
	w, err := NewWords([]string{LineEnd, "the", "a", Unknown, "The", "é", "ab", "\xc2", long})
	require.NoError(t, err)
	return w
}

// separates reports whether a character is white space for Python's str.split.
func separates(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

// reference prepares a text like vocabulary.py of the reference implementation. For each line, it
// returns the words and a symbol for the line's end.
func reference(text string) (symbols []string) {
	lines := strings.SplitAfter(text, "\n")
	for _, line := range lines {
		if line != "" { // no line begins after the last line feed
			symbols = append(append(symbols, strings.FieldsFunc(line, separates)...), "\n")
		}
	}
	return symbols
}

func drawWords(t *rapid.T) []byte {
	part := rapid.SampledFrom([]string{
		"a", "the", "ab", "The", "é", "<unk>", "<eos>", " ", " ", "\n", "\r\n", "\t", "\x1c", "€",
		"\u00a0", "\u0085", "\u2003", "\u2028", "\u1680", "\u205f", "\u3000",
		"\xc2", "\xe2", "\xe2\x80", "\x80", "\xe1\x9a", "\xff",
		strings.Repeat("w", 500), strings.Repeat("w", MaxWordBytes),
		strings.Repeat("\x80", 1500), strings.Repeat(" ", 2000),
	})
	return []byte(strings.Join(rapid.SliceOfN(part, 0, 40).Draw(t, "parts"), ""))
}

func feed(t *rapid.T, w Tokenizer, text []byte) (all Tokens, p Pending) {
	for len(text) > 0 {
		piece := text[:rapid.IntRange(1, len(text)).Draw(t, "piece")]
		text = text[len(piece):]
		for more := true; more; {
			room := rapid.IntRange(1, 4).Draw(t, "room")
			before := len(all.IDs)
			// Next gets a copy, because it must not keep its argument
			piece = w.Next(&all, &p, bytes.Clone(piece), room)
			require.LessOrEqual(t, len(all.IDs)-before, room)
			require.NoError(t, p.Check())
			more = len(all.IDs)-before == room
		}
		require.Empty(t, piece, "all of the text is taken")
	}
	return all, p
}

func whole(w Tokenizer, text []byte) (all Tokens, p Pending) {
	w.Next(&all, &p, text, len(text)+1)
	return all, p
}

func TestAnyPiecesGiveTheSameTokens(t *testing.T) {
	w := few(t)
	for _, tok := range []Tokenizer{w, Bytes{}} {
		rapid.Check(t, func(t *rapid.T) {
			text := drawWords(t)
			all, p := whole(tok, text)
			cut, q := feed(t, tok, text)
			require.Equal(t, all.IDs, cut.IDs)
			require.Equal(t, all.Sizes, cut.Sizes)
			require.Equal(t, all.Chars, cut.Chars)
			require.Equal(t, int64(len(text)), all.Size()+p.Size(),
				"every byte is in a token or pending")
			require.Equal(t, string(p.Word), string(q.Word))
			p.Word, q.Word = nil, nil
			require.Equal(t, p, q)
		})
	}
}

// The tokens agree with function reference, a Go version of the reference implementation. Unlike
// the Python original, reference accepts invalid UTF-8 and does not end lines at carriage returns.
func TestTokensAreTheReferences(t *testing.T) {
	w := few(t)
	rapid.Check(t, func(t *rapid.T) {
		text := drawWords(t)
		all, p := whole(w, text)
		w.End(&all, &p)
		require.Zero(t, p.Size())
		require.Equal(t, int64(len(text)), all.Size(), "every byte belongs to one token")
		var want []int32
		for _, symbol := range reference(string(text)) {
			want = append(want, w.idOf(symbol))
		}
		require.Equal(t, want, all.IDs)
		at := int64(0)
		for i, size := range all.Sizes {
			part := string(text[at : at+size])
			at += size
			trimmed := strings.TrimLeftFunc(part, separates)
			switch id := all.IDs[i]; id {
			case w.Start():
				require.Empty(t, trimmed)
			case w.Unknown():
				require.NotEmpty(t, trimmed)
			default:
				require.Equal(t, w.Symbol(id), trimmed)
			}
			require.EqualValues(t, w.Chars([]byte(part)), all.Chars[i])
		}
	})
}

func (w *Words) idOf(symbol string) int32 {
	if symbol == "\n" {
		return w.lineEnd
	}
	return w.ID([]byte(symbol))
}

func TestTokensByExample(t *testing.T) {
	w := few(t)
	const eos, unk = 0, 3
	for text, want := range map[string][]int32{
		"":        nil,
		"the a\n": {1, 2, eos},
		// the end of a text ends its last line
		"the a":             {1, 2, eos},
		"\n\n":              {eos, eos},
		" \n the\n":         {eos, 1, eos},
		"the   ":            {1, eos},
		"The THE":           {4, unk, eos},
		"the\r\na":          {1, eos, 2, eos},
		"a\u00a0the\u3000a": {2, 1, 2, eos},
		"<unk> <UNK>":       {unk, unk, eos},
		// a word that is spelled like LineEnd is unknown
		"<eos> a":                            {unk, 2, eos},
		strings.Repeat("w", 1024):            {8, eos},
		strings.Repeat("w", 1025):            {unk, eos},
		strings.Repeat("w", 1e6) + "\u2003a": {unk, 2, eos},
	} {
		all, p := whole(w, []byte(text))
		w.End(&all, &p)
		require.Equal(t, want, all.IDs, "%.20q", text)
	}
}

func TestPendingIsTheWholeState(t *testing.T) {
	w := few(t)
	rapid.Check(t, func(t *rapid.T) {
		text, more := drawWords(t), drawWords(t)
		_, p := whole(w, text)
		var q Pending
		q.CopyFrom(&p)
		require.NoError(t, q.Check())
		w.Next(new(Tokens), &p, []byte("something else "), 9)
		var all Tokens
		w.Next(&all, &q, more, len(more)+2)
		both, _ := whole(w, slices.Concat(text, more))
		require.Equal(t, fmt.Sprint(both.IDs[len(both.IDs)-len(all.IDs):]), fmt.Sprint(all.IDs))
	})
}

func TestPendingThatNoTextLeavesIsRefused(t *testing.T) {
	for want, p := range map[string]Pending{
		"expected 0 or more":            {Space: -1},
		"3 characters in 2 bytes":       {Space: 2, Chars: 3},
		"0 characters in 1 bytes":       {Line: true},
		"the end of the line":           {Line: true, Space: 1},
		"expected 2 bytes kept":         {Word: []byte("x"), More: 5000},
		"at least 1025 bytes dropped":   {Word: []byte("xy"), More: 1024},
		"expected at most 1026":         {Word: bytes.Repeat([]byte("x"), 1027)},
		"4 bytes of white space":        {Word: []byte("x"), Ended: 4, Chars: 2},
		"at most 1 at the end of":       {Word: []byte("x"), Ended: 2, Line: true, Chars: 2},
		"without white space before it": {Word: []byte("x"), Ended: 1, Space: 1, Chars: 3},
		"1 to 1024 bytes":               {Ended: 1, Chars: 1},
		"white space at byte 1 of":      {Word: []byte("x y")},
		"white space at byte 2 of":      {Word: []byte("\u2003")},
	} {
		require.ErrorContains(t, p.Check(), want)
	}
}

func TestSpelledTokensAreReadAsTheSame(t *testing.T) {
	w := few(t)
	require.Equal(t, "the a\n<unk> ab", string(spell(w, 1, 2, 0, 3, 6)))
	rapid.Check(t, func(t *rapid.T) {
		ids := append(rapid.SliceOf(rapid.Int32Range(0, int32(w.Vocab())-1)).Draw(t, "ids"),
			w.Start())
		all, p := whole(w, spell(w, ids...))
		require.Equal(t, ids, all.IDs)
		require.Zero(t, p.Size())
	})
}

func spell(w Tokenizer, ids ...int32) (text []byte) {
	after := w.Start()
	for _, id := range ids {
		text = w.Spell(text, after, id)
		after = id
	}
	return text
}

func TestTokensAreCounted(t *testing.T) {
	w := few(t)
	for text, n := range map[string]int{
		"": 0, " ": 0, "the": 1, "the ": 1, "the\n": 2, "the a": 2, "\n\n": 2,
		strings.Repeat("the a\n", countPiece): 3 * countPiece,
	} {
		require.Equal(t, n, Count(w, []byte(text)), "%.20q", text)
		require.Equal(t, len(text), Count(Bytes{}, []byte(text)))
	}
}

func TestCharactersDoNotDependOnCuts(t *testing.T) {
	w := few(t)
	rapid.Check(t, func(t *rapid.T) {
		text := drawText(t)
		cut := rapid.IntRange(0, len(text)).Draw(t, "cut")
		require.Equal(t, w.Chars(text), w.Chars(text[:cut])+w.Chars(text[cut:]))
	})
	require.Equal(t, 3, w.Chars([]byte("aé€")))
}

func TestVocabulariesThatAreNoneAreRefused(t *testing.T) {
	for want, symbols := range map[string][]string{
		"no symbol <eos>":                 {"a", Unknown},
		"neither <unk> nor <UNK>":         {"a", LineEnd},
		"symbol 1: found nothing":         {"a", ""},
		"symbol 0: found 1025":            {strings.Repeat("x", MaxWordBytes+1)},
		`white space in "a b"`:            {"a b"},
		`white space in "a\u3000"`:        {"a\u3000"},
		`found "a", which is also symbol`: {"a", "b", "a"},
	} {
		_, err := NewWords(symbols)
		require.ErrorIs(t, err, ErrVocabulary)
		require.ErrorContains(t, err, want)
	}
}

// ReadSymbols must accept every vocabulary that NewWords accepts. Otherwise a trained model could
// not be opened.
func TestVocabularyFitsItsForm(t *testing.T) {
	const count = MaxSymbolBytes/(MaxWordBytes+1) + 1
	// any 1,024 consecutive bytes form a different word
	text := make([]byte, count+MaxWordBytes)
	rand.NewChaCha8([32]byte{}).Read(text)
	for i, b := range text {
		text[i] = 'a' + b%26
	}
	all, symbols := string(text), []string{LineEnd, Unknown}
	for at := range count {
		symbols = append(symbols, all[at:at+MaxWordBytes])
	}
	_, err := NewWords(symbols)
	require.ErrorIs(t, err, ErrVocabulary)
	require.ErrorContains(t, err, "found more than 268435456 bytes")
}

func TestWordVocabularySurvivesItsForm(t *testing.T) {
	w := few(t)
	back, err := Parse(w.Describe(), w.Symbols())
	require.NoError(t, err)
	require.Equal(t, w, back)
	for data, want := range map[string]string{
		"":                   "symbol 0: found nothing",
		"<eos>\n<unk>":       "no line feed at the end",
		"<eos>\n\n<unk>\n":   "symbol 1: found nothing",
		"<eos>\n<unk>\n\n":   "symbol 2: found nothing",
		"<eos>\n<unk>\na \n": "symbol 2: found white space",
	} {
		tok, err := Parse(w.Describe(), []byte(data))
		require.Nil(t, tok)
		require.ErrorIs(t, err, ErrVocabulary)
		require.ErrorContains(t, err, want)
	}
	_, err = Parse(Bytes{}.Describe(), []byte("<eos>\n"))
	require.ErrorIs(t, err, ErrVocabulary)
}

func TestNoAllocationIntoTokensThatAreLargeEnough(t *testing.T) {
	w := few(t)
	text := []byte("the a ab\nthe un" + strings.Repeat("known", 500) + " word\n é")
	all, p := whole(w, text)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		all.Reset()
		w.Next(&all, &p, text, 1<<20)
	}))
}

func FuzzWords(f *testing.F) {
	f.Add([]byte("the a\u3000ab \xe2\x80\n<unk>\r\n\u00a0"), uint(3))
	w := few(f)
	f.Fuzz(func(t *testing.T, text []byte, cut uint) {
		all, p := whole(w, text)
		at := int(cut % uint(len(text)+1))
		halves, q := whole(w, text[:at])
		w.Next(&halves, &q, text[at:], len(text)+2)
		require.Equal(t, all, halves)
		require.NoError(t, p.Check())
		require.Equal(t, p.Size(), q.Size())
		require.Equal(t, int64(len(text)), all.Size()+p.Size())
	})
}

func FuzzSymbols(f *testing.F) {
	f.Add(few(f).Symbols())
	f.Fuzz(func(t *testing.T, data []byte) {
		w, err := ReadSymbols(data)
		if err != nil {
			require.ErrorIs(t, err, ErrVocabulary)
			return
		}
		require.Equal(t, data, w.Symbols())
	})
}
