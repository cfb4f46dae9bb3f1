package tokenizer

import "math"

// Tally is the account of what has been scored: how much text, and the bits that the model would
// have needed for it. The zero value is empty.
//
// A tokenizer of words has one token for all words that its vocabulary does not have. Their bits
// say that such a word comes, but not which: they are counted in Bits, and besides by themselves,
// since the ratios by length are of the words that are known. A tokenizer of bytes knows them all.
type Tally struct {
	Bytes, Chars, Tokens int64   // of the tokens that were scored; Chars as Tokenizer.Chars counts
	Bits                 float64 // -log2 of the probability of all the tokens

	Unknown                    int64 // those of Tokens that stand for a word that is not known
	UnknownBytes, UnknownChars int64 // those of Bytes and Chars that belong to these tokens
	UnknownBits                float64
}

// Add adds what o has counted.
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

// Count adds tokens with their negative log-likelihoods in nats, one after the other, so that the
// sums do not depend on the pieces in which the tokens came. unknown is the id of unknown words, -1
// if there are none.
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

// BitsPerChar returns bits per character of the tokens that are known. Like the other ratios it is
// 0 without any and not NaN, which JSON cannot hold; the counts tell that there are none.
func (t Tally) BitsPerChar() float64 {
	return per(t.Bits-t.UnknownBits, t.Chars-t.UnknownChars)
}

// BitsPerByte returns bits per byte of the tokens that are known. Published numbers of byte-level
// models on enwik8 are in this unit, though the literature calls them bits per character.
func (t Tally) BitsPerByte() float64 {
	return per(t.Bits-t.UnknownBits, t.Bytes-t.UnknownBytes)
}

// Perplexity returns 2^(bits per token), unknown words among the tokens, as the literature counts
// it: 1 for an empty tally, and the largest float64 where it would overflow, since JSON has no
// infinity.
func (t Tally) Perplexity() float64 {
	return math.Min(math.Exp2(per(t.Bits, t.Tokens)), math.MaxFloat64)
}

func per(bits float64, n int64) float64 {
	if n == 0 {
		return 0
	}
	return bits / float64(n)
}
