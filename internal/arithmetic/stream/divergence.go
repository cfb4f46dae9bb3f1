package stream

import (
	"fmt"
	"math"
	"slices"
)

// Divergence counts how often a stream's fast weights diverged and were reset to zero.
//
// A token reveals a divergence if its cost under the adapted network is NaN or more than
// TokenBitsMax bits. Its reported cost is then TokenBitsMax. A token of that cost has a probability
// too small to change a float32 sum over the vocabulary.
//
// The reset follows the byte that completes the token: fast weights and gradient averages become
// zero. The token's chunk makes no update. Counts, caches and the memory keep their contents. So a
// token's probability depends neither on the token itself nor on the division of the text into
// pieces.
type Divergence struct {
	Count  int64 `json:"count"`  // number of resets so far
	Offset int64 `json:"offset"` // number of bytes of the text before the last reset
	Step   int64 `json:"step"`   // index of the chunk of the last reset, from 0
}

// TokenBitsMax is the maximum cost of a token under fast weights, in bits. For random data after
// English text, a byte costs at most 47 bits under the static model, and at most 54 under
// SparseMeta.
const TokenBitsMax = 128

const tokenNatsMax = TokenBitsMax * math.Ln2

// mayDiverge reports whether the stream's fast weights may be nonzero.
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

// diverged reports whether the cost of one of w.tokens is NaN or above tokenNatsMax. The segments
// must already contain these tokens. The costs stay in w.losses. Among several tokens, the token
// that diverged is unknown: attention multiplies infinite states of later tokens by 0, so every
// token gets NaN.
func (w *Worker) diverged(s *Stream) bool {
	if !s.mayDiverge() {
		return false
	}
	ids := w.tokens.IDs
	nats := w.losses[:len(ids)]
	w.seg.NLL(len(s.Pending), ids, nats)
	return slices.ContainsFunc(nats, func(v float32) bool { return !(v <= tokenNatsMax) })
}

func bound(nats []float32) {
	for i, v := range nats {
		if !(v <= tokenNatsMax) {
			nats[i] = tokenNatsMax
		}
	}
}

// reset sets the fast weights to zero and records the divergence.
func (s *Stream) reset() {
	s.Divergence = Divergence{s.Divergence.Count + 1, s.Tally.Bytes, int64(s.Step)}
	s.learnt = nextID.Add(1) // the new number makes workers recompute the sum of the banks
	switch {
	// a frozen stream shares its fast weights with another stream, which keeps them
	case s.frozen:
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
