package main

import (
	"fmt"
	"math"

	"github.com/lmserve/lmserve/api/client"
)

// chunkObject is the JSON form of a chunk or of the total, with the field names of the API.
type chunkObject struct {
	Offset *int64  `json:"offset,omitempty"` // offset of the first byte; nil in the total
	Bytes  int64   `json:"bytes"`
	Bits   float64 `json:"bits"`
	// BPC and the next two fields are set only for a model of bytes.
	BPC         *float64 `json:"bpc,omitempty"`
	BaselineBPC *float64 `json:"baseline_bpc,omitempty"`
	StaticBPC   *float64 `json:"static_bpc,omitempty"` // BaselineBPC under its old name
	chunkOfWords
	Lines   *int64 `json:"lines,omitempty"` // set only in the total of a text scored by lines
	Shown   *int64 `json:"shown,omitempty"` // the number of printed lines
	Total   bool   `json:"total,omitempty"`
	Partial bool   `json:"partial,omitempty"` // only a part of the text was scored
}

// chunkOfWords has the fields that are set only for models of words.
type chunkOfWords struct {
	Tokens             *int64   `json:"tokens,omitempty"`
	Perplexity         *float64 `json:"perplexity,omitempty"`
	BaselinePerplexity *float64 `json:"baseline_perplexity,omitempty"`
	Unknown            *int64   `json:"unknown,omitempty"`
	UnknownBytes       *int64   `json:"unknown_bytes,omitempty"`
	UnknownBits        *float64 `json:"unknown_bits,omitempty"`
	BitsPerByte        *float64 `json:"bits_per_byte,omitempty"`
	PendingBytes       *int64   `json:"pending_bytes,omitempty"` // set only in the total
}

func (o *chunkObject) compared(bits float64, chars int64) {
	o.BaselineBPC = new(perUnit(bits, chars))
	o.StaticBPC = o.BaselineBPC
}

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

// perplexity returns 2^(bits/tokens), at most the largest float64.
func perplexity(bits float64, tokens int64) *float64 {
	return new(min(math.Exp2(bits/float64(tokens)), math.MaxFloat64))
}

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

func unknownWords(unknown, tokens int64) string {
	text := fmt.Sprintf("unknown words %d of %d tokens", unknown, tokens)
	if tokens > 0 {
		text += fmt.Sprintf(" (%.0f %%)", 100*float64(unknown)/float64(tokens))
	}
	return text
}

// unknownMany is the share of unknown words above which a perplexity is not meaningful.
const unknownMany = 1. / 4

// doubt explains why a perplexity is not meaningful; "" if few words are unknown.
func (o *chunkObject) doubt() string {
	unknown := orZero(o.Unknown)
	if unknown > 0 && float64(unknown) >= unknownMany*float64(*o.Tokens) {
		return unknownWords(unknown, *o.Tokens) +
			": the perplexity says little about this text, because all unknown words are one " +
			"token; usual causes are another language or script, and a vocabulary with " +
			"separated punctuation (The dog , she said .)"
	}
	return ""
}

func perUnit(bits float64, units int64) float64 {
	if units == 0 {
		return 0
	}
	return bits / float64(units)
}
