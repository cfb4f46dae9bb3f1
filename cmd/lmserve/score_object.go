package main

import (
	"fmt"
	"math"

	"github.com/lmserve/lmserve/api/client"
)

// chunkObject is one chunk, or the total, as JSON, by the names of the contract.
type chunkObject struct {
	Offset      *int64   `json:"offset,omitempty"` // place of the first byte; the total has none
	Bytes       int64    `json:"bytes"`
	Bits        float64  `json:"bits"`
	BPC         *float64 `json:"bpc,omitempty"` // of a model of bytes, as are the next two
	BaselineBPC *float64 `json:"baseline_bpc,omitempty"`
	StaticBPC   *float64 `json:"static_bpc,omitempty"` // the same, by its name of before
	chunkOfWords
	Lines   *int64 `json:"lines,omitempty"` // of the total of lines
	Shown   *int64 `json:"shown,omitempty"` // of these, printed
	Total   bool   `json:"total,omitempty"`
	Partial bool   `json:"partial,omitempty"` // the text was not scored to its end
}

// chunkOfWords is what only models of words have.
type chunkOfWords struct {
	Tokens             *int64   `json:"tokens,omitempty"`
	Perplexity         *float64 `json:"perplexity,omitempty"`
	BaselinePerplexity *float64 `json:"baseline_perplexity,omitempty"`
	Unknown            *int64   `json:"unknown,omitempty"`
	UnknownBytes       *int64   `json:"unknown_bytes,omitempty"`
	UnknownBits        *float64 `json:"unknown_bits,omitempty"`
	BitsPerByte        *float64 `json:"bits_per_byte,omitempty"`
	PendingBytes       *int64   `json:"pending_bytes,omitempty"` // of the total
}

// compared adds what the static model needs.
func (o *chunkObject) compared(bits float64, chars int64) {
	o.BaselineBPC = new(perUnit(bits, chars))
	o.StaticBPC = o.BaselineBPC
}

// ofWords adds what a text has under a model of words.
func (o *chunkObject) ofWords(m client.Measures) {
	o.Tokens, o.Unknown = &m.Tokens, m.Unknown
	o.UnknownBytes, o.UnknownBits = m.UnknownBytes, m.UnknownBits
	if m.Tokens > 0 {
		o.Perplexity = perplexity(m.Bits, m.Tokens)
		if m.BaselineBits != nil {
			o.BaselinePerplexity = perplexity(*m.BaselineBits, m.Tokens)
		}
	}
	if known := m.Bytes - orZero(m.UnknownBytes); known > 0 {
		o.BitsPerByte = new((m.Bits - orZero(m.UnknownBits)) / float64(known))
	}
}

// perplexity is 2^(bits/tokens), and the largest number where it is beyond all.
func perplexity(bits float64, tokens int64) *float64 {
	return new(min(math.Exp2(bits/float64(tokens)), math.MaxFloat64))
}

// amount says in words how much text a total is of.
func (o *chunkObject) amount() string {
	text := fmt.Sprintf("  %d bytes, %.0f bits", o.Bytes, o.Bits)
	if o.Tokens == nil {
		return text
	}
	unknown := unknownWords(orZero(o.Unknown), *o.Tokens)
	text = fmt.Sprintf("  %d bytes, %s, %.0f bits", o.Bytes, unknown, o.Bits)
	if pending := orZero(o.PendingBytes); pending > 0 {
		text += fmt.Sprintf("; the last %d bytes wait for the end of their word", pending)
	}
	return text
}

// unknownWords says how many of the tokens are unknown words, and their share.
func unknownWords(unknown, tokens int64) string {
	text := fmt.Sprintf("unknown words %d of %d tokens", unknown, tokens)
	if tokens > 0 {
		text += fmt.Sprintf(" (%.0f %%)", 100*float64(unknown)/float64(tokens))
	}
	return text
}

// unknownMany is the share of unknown words from which on a perplexity says little.
const unknownMany = 1. / 4

// doubt says why the perplexity of a text says little; "" if few words are unknown.
func (o *chunkObject) doubt() string {
	unknown := orZero(o.Unknown)
	if unknown > 0 && float64(unknown) >= unknownMany*float64(*o.Tokens) {
		return unknownWords(unknown, *o.Tokens) +
			": the perplexity says little about this text, as " +
			"all unknown words are one token; usual causes are another language or script, and " +
			"punctuation that stands apart in the vocabulary's text (The dog , she said .)"
	}
	return ""
}

// perUnit is bits a unit; 0 of none.
func perUnit(bits float64, units int64) float64 {
	if units == 0 {
		return 0
	}
	return bits / float64(units)
}
