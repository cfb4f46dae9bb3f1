package eval

import (
	"math"

	"github.com/lmserve/lmserve/internal/arithmetic/setting"
	"github.com/lmserve/lmserve/tokenizer"
)

// Result is the result of an evaluation. In JSON, the numbers of a method that diverged are null.
type Result struct {
	Model string `json:"model"`
	// Words is true if tokens are words and ends of lines; otherwise tokens are bytes.
	Words bool   `json:"words,omitempty"`
	Data  string `json:"data"`
	// Settings are the requested settings, which replace the model's own.
	Settings setting.Values `json:"settings,omitempty"`
	// Interrupted is true if the evaluation ended before all documents were scored.
	Interrupted bool `json:"interrupted,omitempty"`
	// Partial is the unfinished document of an interrupted evaluation. The other fields exclude
	// this document.
	Partial *Partial `json:"partial,omitempty"`
	// Methods lists the evaluated methods. Every list of scores has the order of Methods. Gain and
	// cost are relative to the first method.
	Methods   []string `json:"methods"`
	Reset     string   `json:"reset"`
	Shuffle   *uint64  `json:"shuffle"`   // seed of the documents' order; null: path order
	MaxBytes  int64    `json:"max_bytes"` // maximum scored bytes of a document; 0: all
	Seed      uint64   `json:"seed"`
	Threads   int      `json:"threads"`
	KV        string   `json:"kv"` // KVExact or KVCached
	Documents []Part   `json:"documents"`
	Domains   []Part   `json:"domains"`
	Total     Part     `json:"total"`
	// Curve has the mean bits per token of the first 2, 8, 32 and 128 KB of documents (1 KB is 1024
	// bytes). For a model of words, the lengths are 512, 2048, 8192 and 32768 words. Lengths that
	// no document reaches are omitted.
	Curve []Point `json:"curve"`
	// mean bits in successive windows of a document or stream
	Windows    []Point      `json:"windows"`
	Divergence []Divergence `json:"divergence"`
}

// Part has the results of a document, of a domain, or of all documents.
type Part struct {
	Name string `json:"name"`
	// Domain is the first folder of a document's path below the directory, or "." without a folder.
	Domain    string `json:"domain,omitempty"`
	Documents int    `json:"documents"`
	Bytes     int64  `json:"bytes"`
	// Tokens is the number of tokens: bytes, or words and ends of lines as in published
	// perplexities. Unknown words count. The number is 0 if all methods diverged.
	Tokens       int64 `json:"tokens"`
	Unknown      int64 `json:"unknown,omitempty"`
	UnknownBytes int64 `json:"unknown_bytes,omitempty"`

	Scores []*Score `json:"scores"` // one for each method; null if the method diverged in this part
}

// Score is the result of one method on one part of the text: a document, a domain, or all
// documents.
type Score struct {
	Bits        float64 `json:"bits"`
	UnknownBits float64 `json:"unknown_bits,omitempty"`
	// In a model of words, BitsPerByte counts only known words, since the token for unknown words
	// does not tell which word was read.
	BitsPerByte float64 `json:"bits_per_byte"`
	Perplexity  float64 `json:"perplexity"` // 2 to the power of the bits per token
	// Gain is the reduction of bits per byte relative to the first method. GainPercent is the
	// reduction of perplexity in percent. They are null if the first method diverged.
	Gain           *float64 `json:"gain"`
	GainPercent    *float64 `json:"gain_percent"`
	Seconds        float64  `json:"seconds"`
	MicrosPerByte  float64  `json:"us_per_byte"`
	MicrosPerToken float64  `json:"us_per_token"`
	// Cost is Seconds divided by the Seconds of the first method. Cost is null if the first method
	// diverged or took no measurable time.
	Cost *float64 `json:"cost"`
}

// Partial is the progress of each method in an unfinished document. The methods score a document
// one after the other, so their progress differs.
type Partial struct {
	Name   string         `json:"name"`
	Bytes  int64          `json:"bytes"`
	Scores []PartialScore `json:"scores"`
}

// PartialScore is the result of one method on the beginning of a document.
type PartialScore struct {
	Method      string  `json:"method"`
	Bytes       int64   `json:"bytes"`
	Tokens      int64   `json:"tokens"`
	Bits        float64 `json:"bits"`
	BitsPerByte float64 `json:"bits_per_byte"`
	Perplexity  float64 `json:"perplexity"`
}

// Point is the mean bits per token of the tokens between From and To, averaged over texts.
type Point struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
	// Texts is the number of texts that reach token To. A stream that is never reset is one text.
	Texts int `json:"texts"`
	// BitsPerByte has one score for each method, or null if the method diverged in one of the
	// texts. A model of words has BitsPerToken instead.
	BitsPerByte  []*float64 `json:"bits_per_byte,omitempty"`
	BitsPerToken []*float64 `json:"bits_per_token,omitempty"`
}

// Bits returns the scores of the point, one for each method, in bits per token.
func (p Point) Bits() []*float64 {
	if p.BitsPerToken != nil {
		return p.BitsPerToken
	}
	return p.BitsPerByte
}

// Divergence reports that a method diverged in a document near byte Offset, and has no scores after
// this byte. In a stream that is never reset, the method also has no scores in later documents.
type Divergence struct {
	Method   string `json:"method"`
	Document string `json:"document"`
	Offset   int64  `json:"offset"`
	Why      string `json:"why"`
}

func newPart(name string, methods int) Part {
	p := Part{Name: name, Scores: make([]*Score, methods)}
	for k := range p.Scores {
		p.Scores[k] = new(Score)
	}
	return p
}

// count sets the numbers of tokens, from the tally of a method that has scored the whole part.
func (p *Part) count(t tokenizer.Tally) {
	p.Tokens, p.Unknown, p.UnknownBytes = t.Tokens, t.Unknown, t.UnknownBytes
}

func (p *Part) add(o Part) {
	p.Documents += o.Documents
	p.Bytes += o.Bytes
	p.Tokens += o.Tokens
	p.Unknown += o.Unknown
	p.UnknownBytes += o.UnknownBytes
	for k, s := range o.Scores {
		if s == nil || p.Scores[k] == nil {
			p.Scores[k] = nil
			continue
		}
		p.Scores[k].Bits += s.Bits
		p.Scores[k].UnknownBits += s.UnknownBits
		p.Scores[k].Seconds += s.Seconds
	}
}

func (p *Part) tally(s *Score) tokenizer.Tally {
	return tokenizer.Tally{
		Bytes: p.Bytes, Tokens: p.Tokens, Bits: s.Bits,
		Unknown: p.Unknown, UnknownBytes: p.UnknownBytes, UnknownBits: s.UnknownBits,
	}
}

// derive computes ratios such as BitsPerByte from counts, bits and seconds.
func (p *Part) derive() {
	if p.Bytes == 0 { // an interrupted evaluation may have no documents
		return
	}
	for _, s := range p.Scores {
		if s == nil {
			continue
		}
		t := p.tally(s)
		s.BitsPerByte, s.Perplexity = t.BitsPerByte(), t.Perplexity()
		s.MicrosPerByte = 1e6 * s.Seconds / float64(p.Bytes)
		s.MicrosPerToken = 1e6 * s.Seconds / float64(p.Tokens)
		if first := p.Scores[0]; first != nil {
			bits := (first.Bits - s.Bits) / float64(p.Tokens)
			s.Gain = new(first.BitsPerByte - s.BitsPerByte)
			s.GainPercent = new(100 * (1 - math.Exp2(-bits)))
			if first.Seconds > 0 { // a coarse clock may measure no time
				s.Cost = new(s.Seconds / first.Seconds)
			}
		}
	}
}
