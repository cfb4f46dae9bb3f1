package codec

import (
	"math"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/session"
)

// Encoder encodes the scores of texts for a model of bytes or a model of words. The zero value is
// for models of bytes.
type Encoder struct {
	words bool
	model session.ModelInfo
}

// NewEncoder makes the encoder for model m.
func NewEncoder(m session.ModelInfo) Encoder { return Encoder{words: m.OfWords(), model: m} }

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

func (e Encoder) ofWords(n int64) *int64 {
	if !e.words {
		return nil
	}
	return &n
}

// bpc returns bits per character, or nil if bits is nil or chars is 0. For models of words it
// returns nil, because the characters of unknown words would make the result too low.
func (e Encoder) bpc(bits *float64, chars int64) *float64 {
	if bits == nil || e.words {
		return nil
	}
	return per(*bits, chars)
}

func per(bits float64, units int64) *float64 {
	if units == 0 {
		return nil
	}
	return new(bits / float64(units))
}

// perplexity returns 2^(bits/tokens), at most math.MaxFloat64, or nil if tokens is 0.
func perplexity(bits float64, tokens int64) *float64 {
	if tokens == 0 {
		return nil
	}
	return new(min(math.Exp2(bits/float64(tokens)), math.MaxFloat64))
}
