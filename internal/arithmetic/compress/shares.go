package compress

import (
	"sort"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
)

// sharesOne is the integer share of a probability of 1. Every symbol's share is larger by 1, so
// that any text can be coded. A byte of probability 0 costs about 32 bits. The extra shares make
// other bytes costlier by a negligible amount.
const sharesOne = 1 << 32

// shares is a probability distribution in integers. Symbol i has the share upTo[i+1] - upTo[i].
type shares struct {
	vectors kernel.Vectors
	p       []float32
	upTo    []uint64
}

func newShares(v kernel.Vectors, symbols int) *shares {
	return &shares{v, make([]float32, symbols), make([]uint64, symbols+1)}
}

// set sets the shares from log-probabilities. It uses the exponential function of the model's
// arithmetic, so that equal log-probabilities give equal shares.
func (s *shares) set(logProbs []float32) {
	s.vectors.Exp(s.p, logProbs)
	var sum uint64
	for i, p := range s.p {
		size := uint64(1)
		if p > 0 { // false for NaN, which a diverged model may give
			size += uint64(min(p, 1) * sharesOne)
		}
		sum += size
		s.upTo[i+1] = sum
	}
}

func (s *shares) total() uint64 { return s.upTo[len(s.p)] }

// of returns a symbol's share of the total: the integers from `from` to from+size-1.
func (s *shares) of(symbol int32) (from, size uint64) {
	from = s.upTo[symbol]
	return from, s.upTo[symbol+1] - from
}

// holder returns the symbol whose share contains the integer `part`.
func (s *shares) holder(part uint64) int32 {
	return int32(sort.Search(len(s.p), func(i int) bool { return s.upTo[i+1] > part }))
}
