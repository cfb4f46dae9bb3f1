package stream

import (
	"math"
	"sort"

	"github.com/lmserve/lmserve/tokenizer"
)

// Scores describes a piece of text that was scored behind a stream's text and is not yet part of
// it. It is valid until the worker's next call.
type Scores struct {
	Text     []byte            // what was read, see Score
	Tokens   *tokenizer.Tokens // tokens complete now; some of their text may have come before
	NLL      []float32         // negative log-likelihoods in nats, one a token
	Baseline []float32         // under the static model; nil without a baseline
	Network  []float32         // without the companion; nil if there is none
	Lesson   Lesson            // how the text is learned if it is accepted
	// Diverged says that the last token, or one that the same byte completes, shows a Divergence.
	// Commit then resets the fast weights.
	Diverged bool

	falls   []int              // for each token, the byte of Text that bears its cost
	pending *tokenizer.Pending // the text behind the tokens
}

// Bits returns the piece's information in bits.
func (s Scores) Bits() float64         { return AddBits(0, s.NLL) }
func (s Scores) BaselineBits() float64 { return AddBits(0, s.Baseline) }
func (s Scores) NetworkBits() float64  { return AddBits(0, s.Network) }

// AddBits adds nats to a sum in bits, token by token, so that the sum does not depend on the
// pieces in which tokens came.
func AddBits(sum float64, nll []float32) float64 {
	for _, v := range nll {
		sum += float64(v) / math.Ln2
	}
	return sum
}

// EachByte calls visit with each byte of the text, in order. bits are those of the tokens that
// the byte completes, baseline their bits under the static model, or 0 without a baseline. The
// last byte of white space completes the word before it. If the chunk had no room for the end of
// a line, the next byte bears its cost.
func (s Scores) EachByte(visit func(b byte, bits, baseline float64)) {
	s.eachByte(0, len(s.Text), visit)
}

// eachByte is EachByte for a part of the text.
func (s Scores) eachByte(from, to int, visit func(b byte, bits, baseline float64)) {
	k := sort.SearchInts(s.falls, from)
	for i, b := range s.Text[from:to] {
		i += from
		bits, baseline := 0., 0.
		for ; k < len(s.falls) && s.falls[k] <= i; k++ {
			bits += float64(s.NLL[k]) / math.Ln2
			if s.Baseline != nil {
				baseline += float64(s.Baseline[k]) / math.Ln2
			}
		}
		visit(b, bits, baseline)
	}
}

// After returns the stream's Tally and Baseline as of after the commit of the scores.
func (s *Stream) After(scores Scores) (tally, baseline tokenizer.Tally) {
	unknown := s.model.Tokenizer.Unknown()
	tally, baseline = s.Tally, s.Baseline
	tally.Count(scores.Tokens, unknown, scores.NLL)
	if s.Settings.Baseline {
		baseline.Count(scores.Tokens, unknown, scores.Baseline)
	}
	return tally, baseline
}
