package stream

import (
	"math"
	"sort"

	"github.com/lmserve/lmserve/tokenizer"
)

// Scores are a piece of text that was scored behind a stream's and is not a part of it yet. All of
// it is valid until the worker's next call.
type Scores struct {
	Text     []byte            // what was read, see Score
	Tokens   *tokenizer.Tokens // those that are complete now; text of theirs may have come before
	NLL      []float32         // negative log-likelihoods in nats, one a token
	Baseline []float32         // under the static model; nil without a baseline
	Network  []float32         // without the companion; nil if there is none
	Lesson   Lesson            // how the text is learnt, if it is accepted
	// Diverged says that the last token, or one that the same byte completes, shows a Divergence:
	// Commit resets the fast weights.
	Diverged bool

	falls   []int              // of each token: the byte of Text that its cost falls on
	pending *tokenizer.Pending // the text behind the tokens
}

// Bits is the piece's information.
func (s Scores) Bits() float64         { return AddBits(0, s.NLL) }
func (s Scores) BaselineBits() float64 { return AddBits(0, s.Baseline) }
func (s Scores) NetworkBits() float64  { return AddBits(0, s.Network) }

// AddBits adds nats as bits, one token after the other: a sum does not depend
// on how the tokens came in pieces.
func AddBits(sum float64, nll []float32) float64 {
	for _, v := range nll {
		sum += float64(v) / math.Ln2
	}
	return sum
}

// EachByte visits the bytes of the text in order, with the bits of the tokens that fall on them,
// and those under the static model, 0 without a baseline. A token falls on the byte by which it is
// complete: of a word that is the last byte of the white space behind it. The end of a line for
// which its chunk had no more room falls on the byte after it.
func (s Scores) EachByte(visit func(b byte, bits, baseline float64)) {
	s.eachByte(0, len(s.Text), visit)
}

// eachByte is EachByte of a part of the text.
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

// After is the stream's Tally and Baseline as they will be when the scores are committed.
func (s *Stream) After(scores Scores) (tally, baseline tokenizer.Tally) {
	unknown := s.model.Tokenizer.Unknown()
	tally, baseline = s.Tally, s.Baseline
	tally.Count(scores.Tokens, unknown, scores.NLL)
	if s.Settings.Baseline {
		baseline.Count(scores.Tokens, unknown, scores.Baseline)
	}
	return tally, baseline
}
