package tokenizer

import "math"

// Tally is the account of what has been scored: how much text, and the bits
// that the model would have needed for it. The zero value is empty.
type Tally struct {
	Bytes, Chars, Tokens int64
	Bits                 float64 // -log2 of the probability of all the tokens
}

// Add adds what o has counted.
func (t *Tally) Add(o Tally) {
	t.Bytes += o.Bytes
	t.Chars += o.Chars
	t.Tokens += o.Tokens
	t.Bits += o.Bits
}

// BitsPerChar returns bits per character. Like the other ratios it is 0 for an empty tally and not
// NaN, which JSON cannot hold; the counts tell that the tally is empty.
func (t Tally) BitsPerChar() float64 { return per(t.Bits, t.Chars) }

// BitsPerByte returns bits per byte; for a byte-level model it equals bpc.
func (t Tally) BitsPerByte() float64 { return per(t.Bits, t.Bytes) }

// Perplexity returns 2^(bits per token): 1 for an empty tally, and the largest
// float64 where it would overflow, since JSON has no infinity.
func (t Tally) Perplexity() float64 {
	return math.Min(math.Exp2(per(t.Bits, t.Tokens)), math.MaxFloat64)
}

func per(bits float64, n int64) float64 {
	if n == 0 {
		return 0
	}
	return bits / float64(n)
}
