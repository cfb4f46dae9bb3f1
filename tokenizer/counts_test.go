package tokenizer

import (
	"bytes"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func count(t require.TestingT, texts ...string) *Counts {
	c := new(Counts)
	for _, text := range texts {
		require.NoError(t, c.Add([]byte(text)))
		require.NoError(t, c.End())
	}
	return c
}

func symbols(t require.TestingT, c *Counts, o VocabularyOptions) string {
	w, _, err := c.Vocabulary(o)
	require.NoError(t, err)
	return strings.Join(w.symbols, " ")
}

func TestVocabularyIsByFallingCount(t *testing.T) {
	c := count(t, "b b b a a c\n", "d a c <eos>")
	require.EqualValues(t, []any{int64(10), int64(2), 5}, []any{c.Words(), c.Lines(), c.Distinct()})
	require.Equal(t, "<eos> a b c <unk> d", symbols(t, c, VocabularyOptions{}),
		"as frequent: by the bytes")
	require.Equal(t, "<eos> a b <unk> c", symbols(t, c, VocabularyOptions{Size: 5}),
		"left out: d, and the word <eos>")
	require.Equal(t, "<eos> <unk> a b", symbols(t, c, VocabularyOptions{Size: 4}))
	require.Equal(t, "<eos> <unk> a b", symbols(t, c, VocabularyOptions{MinCount: 3}))
	_, unknown, err := c.Vocabulary(VocabularyOptions{MinCount: 3})
	require.NoError(t, err)
	require.EqualValues(t, 4, unknown)
	for _, o := range []VocabularyOptions{
		{Size: 2}, {Size: -1}, {Size: MaxVocab + 1}, {MinCount: -1},
	} {
		_, _, err := c.Vocabulary(o)
		require.ErrorContains(t, err, "expected")
	}
}

// In the text from which a vocabulary was made, ids are in order of descending count, except for
// LineEnd. The order of the texts does not matter.
func TestVocabularyFitsItsText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		one, two := drawWords(t), drawWords(t)
		o := VocabularyOptions{
			Size: rapid.IntRange(3, 12).Draw(t, "size"), MinCount: rapid.Int64Range(0, 3).Draw(t,
				"least"),
		}
		w, unknown, err := count(t, string(one), string(two)).Vocabulary(o)
		require.NoError(t, err)
		require.LessOrEqual(t, w.Vocab(), o.Size)
		require.Equal(t, strings.Join(w.symbols, " "),
			symbols(t, count(t, string(two), string(one)), o))
		occurs := make([]int64, w.Vocab())
		for _, text := range [][]byte{one, two} {
			all, p := whole(w, text)
			w.End(&all, &p)
			for _, id := range all.IDs {
				occurs[id]++
			}
		}
		require.Equal(t, unknown, occurs[w.Unknown()])
		for id := 2; id < len(occurs); id++ {
			require.GreaterOrEqual(t, occurs[id-1], occurs[id])
		}
	})
}

func TestVocabularyFilesOfTheReferenceAreRead(t *testing.T) {
	for text, want := range map[string]string{
		"<eos>\nthe\n<unk>\nof\n":            "<eos> the <unk> of",
		"<eos> 0\nthe 113161\n<unk>\t53\nof": "<eos> the <unk> of",
		"the\r\n<eos>\r\nthe\r\n<UNK>\r\n":   "the <eos> <UNK>", // repeated words are ignored
		" \u00a0a\u00a07 \n<eos>\n<unk>\n":   "a <eos> <unk>",
	} {
		w, err := ReadVocabulary(strings.NewReader(text))
		require.NoError(t, err)
		require.Equal(t, want, strings.Join(w.symbols, " "))
	}
	for text, want := range map[string]string{
		"<eos>\n\n<unk>\n":                     "line 2: found nothing",
		"<eos>\nthe cat\n":                     `line 2: found "cat" after the symbol`,
		"<eos>\nthe -1\n":                      `line 2: found "-1"`,
		"<eos>\n" + strings.Repeat("x", 1025):  "line 2: found a symbol of 1025 bytes",
		"<eos>\n" + strings.Repeat("x", 1<<20): "line 2 is longer than 1088 bytes",
		"<eos>\nthe\n":                         "neither <unk> nor <UNK>",
		"":                                     "no symbol <eos>",
	} {
		_, err := ReadVocabulary(strings.NewReader(text))
		require.ErrorIs(t, err, ErrVocabulary)
		require.ErrorContains(t, err, want)
	}
}

func FuzzReadVocabulary(f *testing.F) {
	f.Add([]byte("<eos> 7\nthe\n<unk>\n\u00a0x 4\r\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		w, err := ReadVocabulary(bytes.NewReader(text))
		if err != nil {
			require.ErrorIs(t, err, ErrVocabulary)
			return
		}
		again, err := ReadVocabulary(bytes.NewReader(w.Symbols()))
		require.NoError(t, err)
		require.Equal(t, w.symbols, again.symbols)
	})
}

func benchmarkText() (text []byte) {
	drawn := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.2, 8, 1<<16)
	for i := 1; len(text) < 4<<20; i++ {
		text = strconv.AppendUint(text, drawn.Uint64()*7919, 36)
		text = append(text, " \n"[i%20/19])
	}
	return text
}

func BenchmarkWords(b *testing.B) {
	text := benchmarkText()
	c := new(Counts)
	require.NoError(b, c.Add(text))
	w, _, err := c.Vocabulary(VocabularyOptions{})
	require.NoError(b, err)
	var all Tokens
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		var p Pending
		all.Reset()
		w.Next(&all, &p, text, len(text))
	}
	b.ReportMetric(float64(w.Vocab()), "symbols")
	b.ReportMetric(float64(len(all.IDs))/1e6, "Mtokens")
}

func BenchmarkCounts(b *testing.B) {
	text := benchmarkText()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		c := new(Counts)
		require.NoError(b, c.Add(text))
	}
}
