package tokenizer

import "math"

// Tally sums up scored text: its length and its bits under the model. The zero value is empty.
//
// A word-level tokenizer maps all words outside its vocabulary to one token. The bits of this token
// measure that some unknown word follows, but not which word. Bits per byte and per character are
// therefore computed from known words only. Bits includes the bits of unknown words; UnknownBits
// counts them separately.
type Tally struct {
	Bytes, Chars, Tokens int64   // totals of the scored tokens; Chars as in Tokenizer.Chars
	Bits                 float64 // sum of -log2 of the tokens' probabilities

	Unknown                    int64 // number of unknown words
	UnknownBytes, UnknownChars int64 // bytes and characters of unknown words
	UnknownBits                float64
}

// Add adds the counts of o.
func (t *Tally) Add(o Tally) {
	t.Bytes += o.Bytes
	t.Chars += o.Chars
	t.Tokens += o.Tokens
	t.Bits += o.Bits
	t.Unknown += o.Unknown
	t.UnknownBytes += o.UnknownBytes
	t.UnknownChars += o.UnknownChars
	t.UnknownBits += o.UnknownBits
}

// Count adds tokens with their negative log-likelihoods nll, in nats. It adds token by token, so
// that rounding does not depend on how the tokens are divided among calls. unknown is the id of
// unknown words, or -1 if there is no such id.
func (t *Tally) Count(tokens *Tokens, unknown int32, nll []float32) {
	for i, id := range tokens.IDs {
		bits := float64(nll[i]) / math.Ln2
		t.Bytes += tokens.Sizes[i]
		t.Chars += tokens.Chars[i]
		t.Tokens++
		t.Bits += bits
		if id == unknown {
			t.Unknown++
			t.UnknownBytes += tokens.Sizes[i]
			t.UnknownChars += tokens.Chars[i]
			t.UnknownBits += bits
		}
	}
}

// BitsPerChar returns bits per character of the known tokens. It returns 0 without known tokens,
// because JSON has no NaN.
func (t Tally) BitsPerChar() float64 {
	return per(t.Bits-t.UnknownBits, t.Chars-t.UnknownChars)
}

// BitsPerByte returns bits per byte of the known tokens, or 0 without known tokens. Published
// results on enwik8 use this unit, under the name bits per character.
func (t Tally) BitsPerByte() float64 {
	return per(t.Bits-t.UnknownBits, t.Bytes-t.UnknownBytes)
}

// Perplexity returns 2^(bits per token), including unknown words, as in the literature. It is 1 for
// an empty tally, and at most the largest float64, because JSON has no infinity.
func (t Tally) Perplexity() float64 {
	return math.Min(math.Exp2(per(t.Bits, t.Tokens)), math.MaxFloat64)
}

func per(bits float64, n int64) float64 {
	if n == 0 {
		return 0
	}
	return bits / float64(n)
}
