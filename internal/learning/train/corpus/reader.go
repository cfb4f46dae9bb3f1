package corpus

import (
	"fmt"
	"math"
	"slices"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
)

// spanSegments is the largest number of consecutive segments that a stream reads from a document. A
// span is long compared with a model's memory, so that the memory nearly always holds the text just
// before the segment. A span is short enough to mix the text of the optimizer's steps well.
const spanSegments = 64

type span struct{ doc, start, end int }

// Lane is the position of one of the streams of a batch.
type Lane struct {
	Span int `json:"span"`
	Pos  int `json:"pos"` // index of the next token in the span's document
}

// ReaderState is the complete state of a Reader.
type ReaderState struct {
	Epoch int    `json:"epoch"`
	Taken int    `json:"taken"`
	Lanes []Lane `json:"lanes"`
}

// Reader reads a corpus as a batch of streams, called lanes. It cuts documents into spans of about
// equal length. A lane that has read a span takes the next span of the epoch. The order of an
// epoch's spans depends on the seed and the epoch's number.
//
// With balance 0, every span occurs once in an epoch. With a larger balance, an epoch has about as
// many spans, but a domain's part is in proportion to tokens^(1-balance). Successive epochs then
// take the domain's spans in turn. There is no padding.
type Reader struct {
	docs    []Document
	spans   []span
	domains []dealt
	seed    uint64
	first   int32 // the input for a document's first token
	State   ReaderState
	order   []int // indexes of spans, in the order of the epoch State.Epoch
}

// dealt is a domain: the indexes of the domain's spans, and the number of spans that an epoch
// takes.
type dealt struct {
	spans []int
	share int
}

// NewReader returns a reader at its start. The corpus must have at least `segment` tokens for each
// of the `batch` lanes. The parameter `first` is the input for a document's first token. The
// parameter `balance` is from 0 (all tokens count equally) to 1 (all domains count equally).
func NewReader(c *Corpus, batch, segment int, first int32, balance float64, seed uint64) (*Reader,
	error) {
	purpose := fmt.Sprintf("%d streams of %d %s; fewer or shorter ones need less", batch, segment,
		c.Unit())
	if err := c.Need(batch*segment, purpose); err != nil {
		return nil, err
	}
	r := &Reader{docs: c.Documents, seed: seed, first: first}
	length := min(spanSegments*segment, c.Tokens()/batch)
	domains := c.Domains()
	r.domains = make([]dealt, len(domains))
	for d, doc := range c.Documents {
		size := doc.Len()
		parts := (size + length - 1) / length
		domain, _ := slices.BinarySearch(domains, doc.Domain)
		for i := range parts {
			r.domains[domain].spans = append(r.domains[domain].spans, len(r.spans))
			r.spans = append(r.spans, span{d, size * i / parts, size * (i + 1) / parts})
		}
	}
	r.share(balance)
	r.deal()
	r.State.Lanes = make([]Lane, batch)
	for b := range r.State.Lanes {
		r.take(&r.State.Lanes[b])
	}
	return r, nil
}

func (r *Reader) share(balance float64) {
	weights, total := make([]float64, len(r.domains)), 0.
	for i, d := range r.domains {
		tokens := 0
		for _, s := range d.spans {
			tokens += r.spans[s].end - r.spans[s].start
		}
		weights[i] = math.Pow(float64(tokens), 1-balance)
		total += weights[i]
	}
	for i, w := range weights {
		r.domains[i].share = len(r.domains[i].spans)
		if balance > 0 {
			r.domains[i].share = max(1, int(math.Round(float64(len(r.spans))*w/total)))
		}
	}
}

// deal sets r.order for the epoch r.State.Epoch. A domain's spans come from an endless sequence, in
// which all spans are shuffled again and again. Each epoch continues the sequence where the epoch
// before it ended.
func (r *Reader) deal() {
	r.order = r.order[:0]
	for i, d := range r.domains {
		n := len(d.spans)
		var row []int
		for k := range d.share {
			at := r.State.Epoch*d.share + k
			if row == nil || at%n == 0 {
				row = slices.Clone(d.spans)
				shuffle(row, kernel.Key(r.seed, uint64(i), uint64(at/n)))
			}
			r.order = append(r.order, row[at%n])
		}
	}
	shuffle(r.order, kernel.Key(r.seed, uint64(r.State.Epoch)))
}

func shuffle(values []int, key uint64) {
	for i := len(values) - 1; i > 0; i-- {
		j := below(kernel.Bits(key, uint64(i)), i+1)
		values[i], values[j] = values[j], values[i]
	}
}

func (r *Reader) take(l *Lane) {
	if r.State.Taken == len(r.order) {
		r.State.Epoch++
		r.State.Taken = 0
		r.deal()
	}
	l.Span = r.order[r.State.Taken]
	l.Pos = r.spans[l.Span].start
	r.State.Taken++
}

// Next fills targets, time-major [T,B], with the next T tokens of each of B lanes. It fills inputs
// with the token before each target in the document. The input for a document's first token is
// NewReader's parameter `first`.
func (r *Reader) Next(inputs, targets []int32) {
	batch := len(r.State.Lanes)
	for i := 0; i < len(targets); i += batch {
		for b := range r.State.Lanes {
			l := &r.State.Lanes[b]
			if l.Pos == r.spans[l.Span].end {
				r.take(l)
			}
			doc := &r.docs[r.spans[l.Span].doc]
			inputs[i+b] = r.first
			if l.Pos > 0 {
				inputs[i+b] = doc.Token(l.Pos - 1)
			}
			targets[i+b] = doc.Token(l.Pos)
			l.Pos++
		}
	}
}

// Restore sets the reader to a saved state. The error is a *StateError if the state does not fit
// this reader.
func (r *Reader) Restore(s ReaderState) error {
	if s.Epoch < 0 || s.Taken < 0 || s.Taken > len(r.order) || len(s.Lanes) != len(r.State.Lanes) {
		return &StateError{fmt.Sprintf("reader: epoch %d, %d of %d spans taken, %d lanes; "+
			"expected %d lanes",
			s.Epoch, s.Taken, len(r.order), len(s.Lanes), len(r.State.Lanes))}
	}
	for b, l := range s.Lanes {
		if l.Span < 0 || l.Span >= len(r.spans) || l.Pos < r.spans[l.Span].start ||
			l.Pos > r.spans[l.Span].end {
			return &StateError{fmt.Sprintf("reader: lane %d at span %d, token %d: outside the text",
				b, l.Span, l.Pos)}
		}
	}
	r.State.Epoch, r.State.Taken = s.Epoch, s.Taken
	copy(r.State.Lanes, s.Lanes)
	r.deal()
	return nil
}
