package train

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/lmserve/lmserve/internal/kernel"
)

// spanSegments is the longest run of segments that a lane reads from one document before it takes another. It is long against the memory
// of a model, so that nearly everything is read with its own past before it, and short enough that the steps of an optimiser see well
// mixed text.
const spanSegments = 64

// span is a run of one document.
type span struct{ doc, start, end int }

// lane is one of the streams of a batch: where it stands.
type lane struct {
	Span int `json:"span"`
	Pos  int `json:"pos"` // of the next byte in the span's document
}

// readerState is all that a batchReader has to remember.
type readerState struct {
	Epoch int    `json:"epoch"` // counted from 0
	Taken int    `json:"taken"` // spans handed out in this epoch
	Lanes []lane `json:"lanes"`
}

// batchReader reads a corpus as a batch of streams. Documents are cut into spans of about equal length. Each epoch it deals about as many
// as there are, in an order drawn from the seed and the epoch's number; a lane that has read its span takes the next one dealt. Without
// balance an epoch deals every span once. With it, a domain's part of an epoch is in proportion to bytes^(1-balance), and its spans take
// turns across epochs. Nothing is padded.
type batchReader struct {
	docs    []Document
	spans   []span
	domains []dealt
	seed    uint64
	first   int32 // the token before a document's first
	state   readerState
	order   []int // spans, as they are dealt in state.Epoch
}

// dealt is a domain: its spans, and how many of them an epoch deals.
type dealt struct {
	spans []int
	share int
}

// newBatchReader returns a reader at its start. segment is the number of tokens a lane reads at a time: the corpus must hold at least one
// segment for each lane. balance is from 0 (every byte alike) to 1 (every domain alike).
func newBatchReader(c *Corpus, batch, segment int, first int32, balance float64, seed uint64) (*batchReader, error) {
	if err := c.need(batch*segment, fmt.Sprintf("%d streams of %d bytes; fewer or shorter ones need less", batch, segment)); err != nil {
		return nil, err
	}
	r := &batchReader{docs: c.Documents, seed: seed, first: first}
	length := min(spanSegments*segment, c.Bytes()/batch)
	domains := c.Domains()
	r.domains = make([]dealt, len(domains))
	for d, doc := range c.Documents {
		size := len(doc.Text)
		parts := (size + length - 1) / length
		domain, _ := slices.BinarySearch(domains, doc.Domain)
		for i := range parts {
			r.domains[domain].spans = append(r.domains[domain].spans, len(r.spans))
			r.spans = append(r.spans, span{d, size * i / parts, size * (i + 1) / parts})
		}
	}
	r.share(balance)
	r.deal()
	r.state.Lanes = make([]lane, batch)
	for b := range r.state.Lanes {
		r.take(&r.state.Lanes[b])
	}
	return r, nil
}

// share says how many of its spans each domain gets dealt in an epoch: at least one.
func (r *batchReader) share(balance float64) {
	weights, total := make([]float64, len(r.domains)), 0.
	for i, d := range r.domains {
		bytes := 0
		for _, s := range d.spans {
			bytes += r.spans[s].end - r.spans[s].start
		}
		weights[i] = math.Pow(float64(bytes), 1-balance)
		total += weights[i]
	}
	for i, w := range weights {
		r.domains[i].share = len(r.domains[i].spans)
		if balance > 0 {
			r.domains[i].share = max(1, int(math.Round(float64(len(r.spans))*w/total)))
		}
	}
}

// deal sets the order of the state's epoch. Epochs take a domain's spans from one endless row of them: shuffled, then shuffled anew, ...
func (r *batchReader) deal() {
	r.order = r.order[:0]
	for i, d := range r.domains {
		n := len(d.spans)
		var row []int
		for k := range d.share {
			at := r.state.Epoch*d.share + k
			if row == nil || at%n == 0 {
				row = slices.Clone(d.spans)
				shuffle(row, kernel.Key(r.seed, uint64(i), uint64(at/n)))
			}
			r.order = append(r.order, row[at%n])
		}
	}
	shuffle(r.order, kernel.Key(r.seed, uint64(r.state.Epoch)))
}

// shuffle is that of Fisher and Yates.
func shuffle(values []int, key uint64) {
	for i := len(values) - 1; i > 0; i-- {
		j := below(kernel.Bits(key, uint64(i)), i+1)
		values[i], values[j] = values[j], values[i]
	}
}

// below maps 64 random bits to 0..n-1.
func below(random uint64, n int) int {
	hi, _ := bits.Mul64(random, uint64(n))
	return int(hi)
}

// take puts a lane at the start of the next span.
func (r *batchReader) take(l *lane) {
	if r.state.Taken == len(r.order) {
		r.state.Epoch++
		r.state.Taken = 0
		r.deal()
	}
	l.Span = r.order[r.state.Taken]
	l.Pos = r.spans[l.Span].start
	r.state.Taken++
}

// Next fills inputs and targets, time-major [T,B], with the next T tokens of every lane. The input of a target is the byte before it in
// its document; before a document's first byte it is the start token.
func (r *batchReader) Next(inputs, targets []int32) {
	batch := len(r.state.Lanes)
	for i := 0; i < len(targets); i += batch {
		for b := range r.state.Lanes {
			l := &r.state.Lanes[b]
			if l.Pos == r.spans[l.Span].end {
				r.take(l)
			}
			text := r.docs[r.spans[l.Span].doc].Text
			inputs[i+b] = r.first
			if l.Pos > 0 {
				inputs[i+b] = int32(text[l.Pos-1])
			}
			targets[i+b] = int32(text[l.Pos])
			l.Pos++
		}
	}
}

// restore puts the reader where a saved state says; it fails if the state is not one of this reader's.
func (r *batchReader) restore(s readerState) error {
	if s.Epoch < 0 || s.Taken < 0 || s.Taken > len(r.order) || len(s.Lanes) != len(r.state.Lanes) {
		return fmt.Errorf("%w: reader: epoch %d, %d of %d spans taken, %d lanes; expected %d lanes",
			ErrCheckpoint, s.Epoch, s.Taken, len(r.order), len(s.Lanes), len(r.state.Lanes))
	}
	for b, l := range s.Lanes {
		if l.Span < 0 || l.Span >= len(r.spans) || l.Pos < r.spans[l.Span].start || l.Pos > r.spans[l.Span].end {
			return fmt.Errorf("%w: reader: lane %d at span %d, byte %d: outside the text", ErrCheckpoint, b, l.Span, l.Pos)
		}
	}
	r.state.Epoch, r.state.Taken = s.Epoch, s.Taken
	copy(r.state.Lanes, s.Lanes)
	r.deal()
	return nil
}
