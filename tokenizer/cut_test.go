package tokenizer

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func prose(t testing.TB) *Words {
	w,
		err := NewWords(strings.Fields(
		`<eos> <unk> the dog Hello said she it is cute Really well known
		e.g. etc. did n't 's , . @-@ @,@ @.@ " ( ) ; ? % -- ... $ 35 000 5 ' “ ” — The`))
	require.NoError(t, err)
	return w
}

func named(w *Words, text string) string {
	all, p := whole(w, []byte(text))
	w.End(&all, &p)
	symbols := make([]string, len(all.IDs)-1)
	for i := range symbols {
		symbols[i] = w.Symbol(all.IDs[i])
	}
	return strings.Join(symbols, " ")
}

func TestProseIsCutAsItsCorpusWas(t *testing.T) {
	w := prose(t)
	for text, want := range map[string]string{
		`Hello, the dog is cute.`:   `Hello , the dog is cute .`,
		`"Really?" she said; it`:    `" Really ? " she said ; it`,
		`(the) well-known, e.g. 5%`: `( the ) well @-@ known , e.g. 5 %`,
		`35,000.5 $35 -5 35, well-`: `35 @,@ 000 @.@ 5 $ 35 <unk> 35 , <unk>`,
		`didn't the dog's, isn't`:   `did n't the dog 's , is n't`,
		`it, (it, 're`:              `it , ( it , <unk>`,
		`etc., (etc.) said...`:      `etc. , ( etc. ) said ...`,
		`dog--the “dog” dog—the`:    `dog -- the “ dog ” dog — the`,
		// WikiText does not cut these words
		`U.S. Q. and/or the.dog`:    `<unk> <unk> <unk> <unk>`,
		`x-y! 我喜欢学习 dog: 'dog'`:     `<unk> @-@ <unk> <unk> <unk> ' dog '`,
		strings.Repeat("dog-", 30):  `<unk>`,
		`The dog , she said .`:      `The dog , she said .`,
		`well @-@ known 35 @,@ 000`: `well @-@ known 35 @,@ 000`,
	} {
		require.Equal(t, want, named(w, text), "%.40q", text)
	}
}

// These vocabularies do not come from texts with separate punctuation.
func TestOtherVocabulariesCutNoWords(t *testing.T) {
	for _, symbols := range []string{
		"<eos> <unk> the ,", "<eos> <unk> the @-@", "<eos> <unk> the , @-@ it,",
	} {
		w, err := NewWords(strings.Fields(symbols))
		require.NoError(t, err)
		require.Equal(t, "the <unk>", named(w, "the the,"))
		require.Equal(t, 1, w.DueMax())
	}
	require.Equal(t, partsMost, prose(t).DueMax())
}

func drawProse(t *rapid.T) []byte {
	part := rapid.SampledFrom([]string{
		"the", "dog", "did", "n't", "'s", "it,", "35", "000", "x", "é", "我", ",", ".", "-", "--",
		"\"",
		"(", ")", "'", "’", "%", "...", "—", "<unk>", " ", " ", "\n", "\r\n", "\u3000", "\xe2\x80",
		"\xff", strings.Repeat("-", 40), strings.Repeat("w", MaxWordBytes),
	})
	return []byte(strings.Join(rapid.SliceOfN(part, 0, 60).Draw(t, "parts"), ""))
}

// Every byte and character belongs to exactly one token. A known word is one token, an unknown word
// is one token per part.
func TestCutsDoNotDependOnPieces(t *testing.T) {
	w := prose(t)
	rapid.Check(t, func(t *rapid.T) {
		text := drawProse(t)
		all, p := whole(w, text)
		cut, q := feed(t, w, text)
		require.Equal(t, all, cut)
		require.Equal(t, p.Size(), q.Size())
		w.End(&all, &p)
		w.End(&cut, &q)
		require.Equal(t, all, cut)
		require.Equal(t, int64(len(text)), all.Size())
		total := int64(0)
		for _, n := range all.Chars {
			total += n
		}
		require.EqualValues(t, w.Chars(text), total)
		var one Tokens
		var due Pending
		w.Next(&one, &due, text, 1)
		before := len(one.IDs)
		w.Next(&one, &due, nil, 100)
		require.LessOrEqual(t, len(one.IDs)-before, w.DueMax())
		counted := len(all.IDs)
		if len(text) > 0 && text[len(text)-1] != '\n' {
			counted-- // End added the end of a line, which the text does not have
		}
		require.Equal(t, counted, Count(w, text))
	})
}
