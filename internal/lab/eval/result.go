package eval

import (
	"math"

	"github.com/lmserve/lmserve/internal/arithmetic/setting"
	"github.com/lmserve/lmserve/tokenizer"
)

// Result is the result of an evaluation. Its JSON has null for numbers of a diverged method.
type Result struct {
	Model string `json:"model"`
	// Words says that tokens are words and ends of lines, not bytes.
	Words bool   `json:"words,omitempty"`
	Data  string `json:"data"` // the directory
	// Settings are the settings that replaced the model's.
	Settings setting.Values `json:"settings,omitempty"`
	// Interrupted says that not all documents of the directory were scored.
	Interrupted bool `json:"interrupted,omitempty"`
	// Partial is the document in which the evaluation was interrupted. No other number includes
	// it.
	Partial *Partial `json:"partial,omitempty"`
	// Methods lists the methods. All lists of scores have this order. Gain and cost are relative to
	// the first method.
	Methods   []string `json:"methods"`
	Reset     string   `json:"reset"`
	Shuffle   *uint64  `json:"shuffle"`   // seed of the documents' order; null: path order
	MaxBytes  int64    `json:"max_bytes"` // maximum scored bytes of a document; 0: all
	Seed      uint64   `json:"seed"`
	Threads   int      `json:"threads"`
	KV        string   `json:"kv"`        // KVExact or KVCached
	Documents []Part   `json:"documents"` // in the order of scoring
	Domains   []Part   `json:"domains"`   // sorted by name
	Total     Part     `json:"total"`
	// Curve has the mean bits of the first 2, 8, 32 and 128 KB of a document, where 1 KB is 1024
	// bytes. For a model of words the lengths are 512, 2048, 8192 and 32768 words. It omits lengths
	// that no document has.
	Curve      []Point      `json:"curve"`
	Windows    []Point      `json:"windows"` // of a document, or of a stream that is never reset
	Divergence []Divergence `json:"divergence"`
}

// Part is a part of the text: a document, a domain or all.
type Part struct {
	Name string `json:"name"` // path below the directory, or the domain
	// Domain is the first folder of a document below the directory, or ".".
	Domain    string `json:"domain,omitempty"`
	Documents int    `json:"documents"`
	Bytes     int64  `json:"bytes"`
	// Tokens are counted as in published perplexities: words, including unknown ones, and ends of
	// lines. It is 0 if all methods diverged.
	Tokens       int64 `json:"tokens"`
	Unknown      int64 `json:"unknown,omitempty"`       // tokens of unknown words
	UnknownBytes int64 `json:"unknown_bytes,omitempty"` // bytes of these words

	Scores []*Score `json:"scores"` // one for each method; null if the method diverged in this part
}

// Score is the result of one method on one part.
type Score struct {
	Bits        float64 `json:"bits"`
	UnknownBits float64 `json:"unknown_bits,omitempty"` // bits of unknown words
	// BitsPerByte counts only known words, since the bits of unknown words do not identify them.
	BitsPerByte float64 `json:"bits_per_byte"`
	Perplexity  float64 `json:"perplexity"` // 2 to the power of the bits per token
	// Gain is the reduction of bits per byte relative to the first method. GainPercent is the
	// reduction of perplexity in percent. Both are null if the first method diverged.
	Gain           *float64 `json:"gain"`
	GainPercent    *float64 `json:"gain_percent"`
	Seconds        float64  `json:"seconds"`
	MicrosPerByte  float64  `json:"us_per_byte"`
	MicrosPerToken float64  `json:"us_per_token"`
	// Cost is the time as a multiple of the first method's; null if the first method diverged.
	Cost *float64 `json:"cost"`
}

// Partial is the progress of each method in an unfinished document. The methods score a document
// one after the other, so their progress differs.
type Partial struct {
	Name   string         `json:"name"`  // path below the directory
	Bytes  int64          `json:"bytes"` // bytes of the document to score
	Scores []PartialScore `json:"scores"`
}

// PartialScore is the result of one method on the beginning of a document.
type PartialScore struct {
	Method      string  `json:"method"`
	Bytes       int64   `json:"bytes"`
	Tokens      int64   `json:"tokens"` // at least 1
	Bits        float64 `json:"bits"`
	BitsPerByte float64 `json:"bits_per_byte"`
	Perplexity  float64 `json:"perplexity"`
}

// Point is the mean over texts of the bits per token in the range of tokens from From to To.
type Point struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
	// Texts is the number of texts that are long enough: documents, or the one stream.
	Texts int `json:"texts"`
	// BitsPerByte, or BitsPerToken for words, has one score for each method; null if the method
	// diverged in one of the texts.
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

// Divergence says that a method has no scores from about byte Offset of a document on. In a
// stream that is never reset, it has none in later documents, either.
type Divergence struct {
	Method   string `json:"method"`
	Document string `json:"document"`
	Offset   int64  `json:"offset"`
	Why      string `json:"why"`
}

// newPart returns a part with an empty score for each method.
func newPart(name string, methods int) Part {
	p := Part{Name: name, Scores: make([]*Score, methods)}
	for k := range p.Scores {
		p.Scores[k] = new(Score)
	}
	return p
}

// count records the number of tokens, from the tally of a method that has not diverged.
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

// derive computes the numbers that follow from counts, bits and seconds.
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
			if first.Seconds > 0 { // a coarse clock may show no time
				s.Cost = new(s.Seconds / first.Seconds)
			}
		}
	}
}
