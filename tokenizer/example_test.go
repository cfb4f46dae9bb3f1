package tokenizer_test

import (
	"fmt"

	"github.com/lmserve/lmserve/tokenizer"
)

func ExampleBytes() {
	var t tokenizer.Bytes
	ids := t.Encode(nil, []byte("né"))
	fmt.Println(ids, t.Vocab(), t.Describe())
	fmt.Printf("%s\n", t.Decode(nil, ids))
	// Output:
	// [110 195 169] 256 {"kind":"bytes"}
	// né
}

// A word becomes a token when white space follows. A pending word continues in the next piece.
func ExampleWords() {
	words, err := tokenizer.NewWords([]string{"<eos>", "the", "<unk>", "cat"})
	if err != nil {
		panic(err)
	}
	var tokens tokenizer.Tokens
	var pending tokenizer.Pending
	for _, piece := range []string{"the ca", "t  s", "at\nthe"} {
		words.Next(&tokens, &pending, []byte(piece), 10)
		fmt.Printf("%d of %d bytes, %q pending\n", tokens.IDs, tokens.Sizes, pending.Word)
	}
	var text []byte
	after := words.Start()
	for _, id := range tokens.IDs {
		text = words.Spell(text, after, id)
		after = id
	}
	fmt.Printf("%q\n", text)
	// Output:
	// [1] of [3] bytes, "ca" pending
	// [1 3] of [3 4] bytes, "s" pending
	// [1 3 2 0] of [3 4 5 1] bytes, "the" pending
	// "the cat <unk>\n"
}

func ExampleTally() {
	var all tokenizer.Tally
	all.Add(tokenizer.Tally{Bytes: 100, Chars: 100, Tokens: 100, Bits: 200})
	all.Add(tokenizer.Tally{Bytes: 100, Chars: 100, Tokens: 100, Bits: 100})
	fmt.Printf("%.2f bits per byte, perplexity %.2f\n", all.BitsPerByte(), all.Perplexity())
	// Output:
	// 1.50 bits per byte, perplexity 2.83
}

// Bytes that come one by one are returned as whole characters.
func ExampleUTF8() {
	var split tokenizer.UTF8
	for _, b := range []byte("aé€") {
		fmt.Printf("%q ", split.Append(nil, []byte{b}))
	}
	fmt.Printf("%q\n", split.Flush(nil))
	// Output:
	// "a" "" "é" "" "" "€" ""
}
