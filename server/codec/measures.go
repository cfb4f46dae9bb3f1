package codec

import (
	"math"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/session"
)

// Encoder writes what clients are told of texts, by the kind of the model's tokenizer. The zero
// value is for models of bytes.
type Encoder struct {
	words bool
	model session.ModelInfo // how its words are spelt
}

// NewEncoder makes the encoder for a model.
func NewEncoder(m session.ModelInfo) Encoder { return Encoder{words: m.OfWords(), model: m} }

// measures is a tally of scored text, with the ratios that follow from it.
func (e Encoder) measures(t session.Tally) api.Measures {
	m := api.Measures{
		Bytes:        t.Bytes,
		Chars:        t.Chars,
		Tokens:       t.Tokens,
		Bits:         t.Bits,
		BPC:          e.bpc(&t.Bits, t.Chars),
		Perplexity:   perplexity(t.Bits, t.Tokens),
		Unknown:      e.ofWords(t.Unknown),
		BaselineBits: t.BaselineBits,
		BaselineBPC:  e.bpc(t.BaselineBits, t.Chars),
	}
	if e.words {
		m.UnknownBytes, m.UnknownBits = &t.UnknownBytes, &t.UnknownBits
		m.BitsPerByte = per(t.Bits-t.UnknownBits, t.Bytes-t.UnknownBytes)
		if t.BaselineBits != nil {
			m.BaselinePerplexity = perplexity(*t.BaselineBits, t.Tokens)
		}
	}
	return m
}

// ofWords is a number that only models of words have.
func (e Encoder) ofWords(n int64) *int64 {
	if !e.words {
		return nil
	}
	return &n
}

// bpc is bits per character; nil where there are no bits or no characters. Models of words have
// none: the characters of unknown words would make it smaller than it is.
func (e Encoder) bpc(bits *float64, chars int64) *float64 {
	if bits == nil || e.words {
		return nil
	}
	return per(*bits, chars)
}

// per is bits divided by a number of units; nil where there are none.
func per(bits float64, units int64) *float64 {
	if units == 0 {
		return nil
	}
	return new(bits / float64(units))
}

// perplexity is 2^(bits/tokens), or the largest float64 where it is beyond that; nil where there
// are no tokens.
func perplexity(bits float64, tokens int64) *float64 {
	if tokens == 0 {
		return nil
	}
	return new(min(math.Exp2(bits/float64(tokens)), math.MaxFloat64))
}
