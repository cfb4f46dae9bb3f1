package stream

import (
	"fmt"
	"math"
	"slices"
)

// Divergence counts how often a stream's fast weights diverged and were reset to zero.
//
// A token shows a divergence if its cost under the adapted network is more than TokenBitsMax, or
// NaN. Its reported cost is then TokenBitsMax. Such a cost means a probability too small to change
// the float32 sum of the probabilities of the vocabulary.
//
// After the byte that completes the token, fast weights and their averages are zero. The token's
// chunk makes no update. Counts, caches and the memory stay. So a token's probability depends
// neither on the token itself nor on how the text was divided into pieces.
type Divergence struct {
	Count  int64 `json:"count"`  // number of resets so far
	Offset int64 `json:"offset"` // number of bytes of the text before the last reset
	Step   int64 `json:"step"`   // number of chunks before the chunk of the last reset
}

// TokenBitsMax bounds the bits of a token under fast weights. Even for random data that follows
// English text, the static model needs at most 47 bits for a byte. With fast weights of SparseMeta,
// the model needs at most 54.
const TokenBitsMax = 128

const tokenNatsMax = TokenBitsMax * math.Ln2

// mayDiverge reports whether the stream's network has fast weights that are not zero.
func (s *Stream) mayDiverge() bool {
	if s.Fast == nil && s.Dynamic == nil || s.Step == 0 {
		return false
	}
	return s.Divergence.Count == 0 || int64(s.Step) > s.Divergence.Step+1
}

// ResetInChunk reports whether the fast weights were reset in the current chunk.
func (s *Stream) ResetInChunk() bool {
	return s.Divergence.Count > 0 && uint64(s.Divergence.Step) == s.Step
}

// diverged reports whether one of w.tokens costs the network too much. The segments must have been
// extended by these tokens. It leaves the costs in w.losses. If there are several tokens, it cannot
// tell which one diverged. Attention multiplies the states of later tokens by 0, and 0 times
// infinity is NaN, so that all tokens get NaN.
func (w *Worker) diverged(s *Stream) bool {
	if !s.mayDiverge() {
		return false
	}
	ids := w.tokens.IDs
	nats := w.losses[:len(ids)]
	w.seg.NLL(len(s.Pending), ids, nats)
	return slices.ContainsFunc(nats, func(v float32) bool { return !(v <= tokenNatsMax) })
}

// bound limits the costs of tokens to tokenNatsMax.
func bound(nats []float32) {
	for i, v := range nats {
		if !(v <= tokenNatsMax) {
			nats[i] = tokenNatsMax
		}
	}
}

// reset sets the fast weights to zero.
func (s *Stream) reset() {
	s.Divergence = Divergence{s.Divergence.Count + 1, s.Tally.Bytes, int64(s.Step)}
	s.learnt = nextID.Add(1) // the new number makes workers recompute the sum of the banks
	switch {
	case s.frozen: // the fast weights belong to another stream, and must stay
		s.Fast, s.Dynamic, s.dynamic = nil, nil, Arena{}
	case s.Fast != nil:
		s.Fast.Reset()
	default:
		s.Dynamic.Reset()
	}
	if s.held != nil {
		s.held.line[lineCarries] = carriesNothing
	}
}

// check validates a divergence against the header that contains it.
func (d *Divergence) check(h *header, set Settings) error {
	if d == nil {
		return nil
	}
	adapts := set.Method == SparseMeta || set.Method == DynamicSGD || set.Method == DynamicRMS
	if !adapts || d.Count < 1 || d.Offset < 0 || d.Offset > h.Tally.Bytes || d.Step < 1 ||
		uint64(d.Step) > h.Step {
		return fmt.Errorf(
			"divergence is %+v, expected none without fast weights, else a count of 1 or "+
				"more, an offset of 0 to %d and a step of 1 to %d", *d, h.Tally.Bytes, h.Step)
	}
	return nil
}
