package tokenizer

import "math"

// Tally sums up scored text: its length, and its bits under the model. The zero value is empty.
//
// A tokenizer of words has one token for all words outside its vocabulary. The token's bits measure
// that some unknown word follows, but not which one. Bits includes these bits. UnknownBits counts
// them separately, because bits per byte and per character are computed from known words only. A
// tokenizer of bytes has no unknown words.
type Tally struct {
	Bytes, Chars, Tokens int64   // of the scored tokens; characters as in Tokenizer.Chars
	Bits                 float64 // -log2 of the probability of all the tokens

	Unknown                    int64 // tokens that are unknown words
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

// Count adds tokens with their negative log-likelihoods in nats. It adds them one by one, so that
// the sums do not depend on how the tokens were divided among calls. unknown is the id of unknown
// words, or -1 if there are none.
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

// BitsPerChar returns bits per character of the known tokens. Without known tokens, this ratio and
// the others are 0, since JSON has no NaN.
func (t Tally) BitsPerChar() float64 {
	return per(t.Bits-t.UnknownBits, t.Chars-t.UnknownChars)
}

// BitsPerByte returns bits per byte of the known tokens. Published results of byte-level models
// on enwik8 are in this unit, though the literature calls them bits per character.
func (t Tally) BitsPerByte() float64 {
	return per(t.Bits-t.UnknownBits, t.Bytes-t.UnknownBytes)
}

// Perplexity returns 2^(bits per token), including unknown words, as in the literature. It is 1
// for an empty tally, and the largest float64 instead of an overflow, since JSON has no infinity.
func (t Tally) Perplexity() float64 {
	return math.Min(math.Exp2(per(t.Bits, t.Tokens)), math.MaxFloat64)
}

func per(bits float64, n int64) float64 {
	if n == 0 {
		return 0
	}
	return bits / float64(n)
}
