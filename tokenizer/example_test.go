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

func ExampleTally() {
	var all tokenizer.Tally
	all.Add(tokenizer.Tally{Bytes: 100, Chars: 100, Tokens: 100, Bits: 200})
	all.Add(tokenizer.Tally{Bytes: 100, Chars: 100, Tokens: 100, Bits: 100})
	fmt.Printf("%.2f bits per byte, perplexity %.2f\n", all.BitsPerByte(), all.Perplexity())
	// Output:
	// 1.50 bits per byte, perplexity 2.83
}

// Bytes that come one by one leave in whole characters.
func ExampleUTF8() {
	var split tokenizer.UTF8
	for _, b := range []byte("aé€") {
		fmt.Printf("%q ", split.Append(nil, []byte{b}))
	}
	fmt.Printf("%q\n", split.Flush(nil))
	// Output:
	// "a" "" "é" "" "" "€" ""
}
