package stream

import (
	"math"
	"sort"

	"github.com/lmserve/lmserve/tokenizer"
)

// Scores describes a piece of text that follows a stream's text. The piece was scored, but the
// stream has not accepted it yet. A Scores is valid until the worker's next call.
type Scores struct {
	Text     []byte
	Tokens   *tokenizer.Tokens // the tokens that Text completes; a token may begin before Text
	NLL      []float32         // negative log-likelihood of each token, in nats
	Baseline []float32         // NLL under the static model; nil without a baseline
	Network  []float32         // NLL under the network alone; nil without a companion
	Lesson   Lesson
	// Diverged says that the last token, or another token completed by the same byte, shows a
	// Divergence. Commit then resets the fast weights.
	Diverged bool

	falls   []int // for each token, the index in Text of the byte that gets the token's cost
	pending *tokenizer.Pending
}

// Bits returns the cost of the piece in bits: the sum of -log2 of the tokens' probabilities.
func (s Scores) Bits() float64         { return AddBits(0, s.NLL) }
func (s Scores) BaselineBits() float64 { return AddBits(0, s.Baseline) }
func (s Scores) NetworkBits() float64  { return AddBits(0, s.Network) }

// AddBits converts nats to bits and adds them to sum token by token. So the rounded result does not
// depend on how the tokens are divided into pieces.
func AddBits(sum float64, nll []float32) float64 {
	for _, v := range nll {
		sum += float64(v) / math.Ln2
	}
	return sum
}

// EachByte calls visit with each byte of the text, in order. Parameter bits is the cost of the
// tokens that the byte completes. Parameter baseline is their cost under the static model, or 0
// without a baseline. The last byte of white space completes the preceding word. If an end-of-line
// token does not fit into the chunk, the next byte gets the token's cost.
func (s Scores) EachByte(visit func(b byte, bits, baseline float64)) {
	s.eachByte(0, len(s.Text), visit)
}

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

// After returns the Tally and Baseline that the stream will have after the commit of the scores.
func (s *Stream) After(scores Scores) (tally, baseline tokenizer.Tally) {
	unknown := s.model.Tokenizer.Unknown()
	tally, baseline = s.Tally, s.Baseline
	tally.Count(scores.Tokens, unknown, scores.NLL)
	if s.Settings.Baseline {
		baseline.Count(scores.Tokens, unknown, scores.Baseline)
	}
	return tally, baseline
}
