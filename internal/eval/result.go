package eval

// Result of an evaluation. Its JSON has null where there is no number because a method diverged.
type Result struct {
	Model string `json:"model"`
	Data  string `json:"data"` // the directory
	// Interrupted says that not all documents of the directory were scored.
	Interrupted bool `json:"interrupted,omitempty"`
	// Partial is the document within which the evaluation was interrupted. It counts in nothing else.
	Partial *Partial `json:"partial,omitempty"`
	// Methods are in the order that every list of scores has. Gain and cost are relative to the
	// first.
	Methods   []string `json:"methods"`
	Reset     string   `json:"reset"`
	Shuffle   *uint64  `json:"shuffle"`   // seed of the documents' order; null: path order
	MaxBytes  int64    `json:"max_bytes"` // of each document; 0: all
	Seed      uint64   `json:"seed"`
	Threads   int      `json:"threads"`
	KV        string   `json:"kv"`        // KVExact or KVCached
	Documents []Part   `json:"documents"` // in the order in which they were scored
	Domains   []Part   `json:"domains"`   // by name
	Total     Part     `json:"total"`
	// Curve has the first 2, 8, 32 and 128 KB of a document, 1 KB = 1024 bytes, as far as any
	// document is that long.
	Curve      []Point      `json:"curve"`
	Windows    []Point      `json:"windows"` // of a document, or of the stream if it is never reset
	Divergence []Divergence `json:"divergence"`
}

// Part of the text: a document, a domain or all.
type Part struct {
	Name string `json:"name"` // path below the directory, or the domain
	// Domain is the first folder of a document below the directory, "." for none.
	Domain    string   `json:"domain,omitempty"`
	Documents int      `json:"documents"`
	Bytes     int64    `json:"bytes"`
	Scores    []*Score `json:"scores"` // one a method; null if the method diverged in this part
}

// Score is one method on one part.
type Score struct {
	Bits        float64 `json:"bits"`
	BitsPerByte float64 `json:"bits_per_byte"`
	// Gain is how many bits per byte less than the first method this method needs; null if the
	// first method diverged.
	Gain          *float64 `json:"gain"`
	Seconds       float64  `json:"seconds"`
	MicrosPerByte float64  `json:"us_per_byte"`
	// Cost is the time as a multiple of the first method's; null if the first method diverged.
	Cost *float64 `json:"cost"`
}

// Partial is how far each method came in a document that was not scored to its end. The methods
// score a document one after the other, so each has scored another stretch of it.
type Partial struct {
	Name   string         `json:"name"`  // path below the directory
	Bytes  int64          `json:"bytes"` // of the document that were to be scored
	Scores []PartialScore `json:"scores"`
}

// PartialScore is one method on the bytes with which a document begins.
type PartialScore struct {
	Method      string  `json:"method"`
	Bytes       int64   `json:"bytes"` // at least 1
	Bits        float64 `json:"bits"`
	BitsPerByte float64 `json:"bits_per_byte"`
}

// Point is the mean over texts of the bits per byte in the stretch of bytes from From to To.
type Point struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
	// Texts is the number of texts that are long enough: documents, or the one stream.
	Texts int `json:"texts"`
	// BitsPerByte has one score a method; null if the method diverged in one of the texts.
	BitsPerByte []*float64 `json:"bits_per_byte"`
}

// Divergence says that a method has no scores from about byte Offset of a document on. In a stream
// that is never reset the method has none in the documents after this one, either.
type Divergence struct {
	Method   string `json:"method"`
	Document string `json:"document"`
	Offset   int64  `json:"offset"`
	Why      string `json:"why"`
}

// newPart has an empty score for each method.
func newPart(name string, methods int) Part {
	p := Part{Name: name, Scores: make([]*Score, methods)}
	for k := range p.Scores {
		p.Scores[k] = new(Score)
	}
	return p
}

// add adds a document's bits and seconds.
func (p *Part) add(o Part) {
	p.Documents += o.Documents
	p.Bytes += o.Bytes
	for k, s := range o.Scores {
		if s == nil || p.Scores[k] == nil {
			p.Scores[k] = nil
			continue
		}
		p.Scores[k].Bits += s.Bits
		p.Scores[k].Seconds += s.Seconds
	}
}

// derive computes what follows from bits, seconds and bytes.
func (p *Part) derive() {
	n := float64(p.Bytes)
	if n == 0 { // an interrupted evaluation may have no document
		return
	}
	for _, s := range p.Scores {
		if s == nil {
			continue
		}
		s.BitsPerByte, s.MicrosPerByte = s.Bits/n, 1e6*s.Seconds/n
		if first := p.Scores[0]; first != nil {
			gain := first.BitsPerByte - s.BitsPerByte
			s.Gain = &gain
			if first.Seconds > 0 { // a coarse clock may see no time pass
				cost := s.Seconds / first.Seconds
				s.Cost = &cost
			}
		}
	}
}
