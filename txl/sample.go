package txl

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Sampling tells how to draw the next token. The zero value always chooses the likeliest token.
type Sampling struct {
	Temperature float64 // 0: choose the likeliest token; 1: draw from the model's distribution
	TopK        int     // draw only from the K likeliest tokens; 0: no limit
	// draw only from the fewest likeliest tokens that together reach this probability; 0 or 1: no
	// limit
	TopP float64
	// draw only tokens whose probability is at least MinP times the maximum; 0: no limit
	MinP float64
	Seed uint64

	// Dry is the strength of the penalty for tokens that would repeat drawn text; see DryDefault. 0
	// means no penalty.
	Dry       float64
	TokenSize int // bytes of a token, for the Dry penalty; 0 means 1
}

// Validate returns an error for the first field that is out of range.
func (p Sampling) Validate() error {
	switch {
	case math.IsNaN(p.Temperature) || p.Temperature < 0 || p.Temperature > 100:
		return fmt.Errorf("txl: temperature is %v, expected 0 to 100", p.Temperature)
	case p.TopK < 0:
		return fmt.Errorf("txl: top_k is %d, expected 0 (no limit) or more", p.TopK)
	case math.IsNaN(p.TopP) || p.TopP < 0 || p.TopP > 1:
		return fmt.Errorf("txl: top_p is %v, expected 0 to 1", p.TopP)
	case math.IsNaN(p.MinP) || p.MinP < 0 || p.MinP > 1:
		return fmt.Errorf("txl: min_p is %v, expected 0 to 1", p.MinP)
	case math.IsNaN(p.Dry) || p.Dry < 0 || p.Dry > DryMax:
		return fmt.Errorf("txl: dry is %v, expected 0 to %d", p.Dry, DryMax)
	case p.TokenSize < 0:
		return fmt.Errorf("txl: the size of a token is %d, expected 0 or more", p.TokenSize)
	}
	return nil
}

// Sampler draws tokens deterministically: samplers with equal Sampling draw the same tokens from
// the same distributions.
type Sampler struct {
	Sampling
	rng *rand.Rand
	// Each token has a rank, smaller for likelier tokens. The lower 32 bits of a rank are the
	// token.
	ranks  []uint64
	sorted int // the first `sorted` elements of ranks are the smallest, in order
	w      []float64
	repeats
}

// sortedLeast is the minimum number of likeliest tokens to sort. It is nearly always sufficient,
// and small compared with a vocabulary of words.
const sortedLeast = 1024

// NewSampler returns a sampler for a vocabulary of the given size. Parameter p must be valid.
func NewSampler(p Sampling, vocab int) *Sampler {
	return &Sampler{
		Sampling: p, rng: rand.New(rand.NewPCG(p.Seed, 0x73616d_706c6572)),
		ranks: make([]uint64, vocab), w: make([]float64, vocab),
	}
}

// Next draws a token from log-probabilities [V] and leaves them unchanged. It applies the Dry
// penalties, then temperature, top-k, min-p and top-p. The probabilities of the remaining tokens
// are renormalized after each step. Among equally likely tokens, the lowest id counts as likeliest.
// A token of probability 0 is drawn only if all tokens have probability 0.
func (s *Sampler) Next(logProbs []float32) int32 {
	if s.Dry == 0 {
		return s.next(logProbs)
	}
	s.penalize(logProbs, s.Dry, max(1, s.TokenSize))
	id := s.next(logProbs)
	s.restore(logProbs)
	s.add(id)
	return id
}

func (s *Sampler) next(logProbs []float32) int32 {
	for i, v := range logProbs[:len(s.ranks)] {
		s.ranks[i] = uint64(rank(v))<<32 | uint64(i)
	}
	s.sorted = 0
	least := int32(slices.Min(s.ranks))
	if s.Temperature == 0 {
		return least
	}
	kept, best, total := len(s.ranks), float64(logProbs[least]), 0.0
	if s.TopK > 0 {
		kept = min(kept, s.TopK)
	}
	if s.MinP > 0 {
		kept = s.likely(kept, logProbs, best)
	}
	if kept > sortedLeast && s.TopK == 0 && s.MinP == 0 {
		for _, v := range logProbs[:kept] {
			total += s.weight(v, best)
		}
	} else {
		s.sort(kept, logProbs, best)
		for _, w := range s.w[:kept] {
			total += w
		}
	}
	if s.TopP > 0 && s.TopP < 1 {
		enough := s.TopP * total
		n := 0
		for total = 0; n < kept && (n == 0 || total < enough); n++ {
			s.sort(n+1, logProbs, best)
			total += s.w[n]
		}
		kept = n
	}
	at := s.rng.Float64() * total
	id := least
	for i := 0; i < kept; i++ {
		s.sort(i+1, logProbs, best)
		if s.w[i] == 0 {
			break
		}
		id = int32(s.ranks[i])
		if at -= s.w[i]; at < 0 {
			break
		}
	}
	return id
}

// likely returns the number of tokens among the n likeliest whose probability is at least MinP
// times the maximum.
func (s *Sampler) likely(n int, logProbs []float32, best float64) int {
	for i := range n {
		s.sort(i+1, logProbs, best)
		if s.w[i] < s.MinP {
			return i
		}
	}
	return n
}

// weight returns a token's weight; the likeliest token has weight 1.
func (s *Sampler) weight(logProb float32, best float64) float64 {
	return math.Exp((float64(logProb) - best) / s.Temperature)
}

// sort sorts the n likeliest tokens and computes their weights, unless this was done before. Each
// sort at least doubles the number of sorted tokens, so few sorts suffice.
func (s *Sampler) sort(n int, logProbs []float32, best float64) {
	if n <= s.sorted {
		return
	}
	n = min(len(s.ranks), max(n, 2*s.sorted, sortedLeast))
	next := s.ranks[s.sorted:]
	leastFirst(next, n-s.sorted)
	// several times faster than a sort with a comparison function
	slices.Sort(next[:n-s.sorted])
	for i := s.sorted; i < n; i++ {
		s.w[i] = s.weight(logProbs[int32(s.ranks[i])], best)
	}
	s.sorted = n
}

// leastFirst moves the n smallest elements of a to the front, in any order (quickselect). All
// elements are distinct.
func leastFirst(a []uint64, n int) {
	for n > 0 && n < len(a) {
		x, y, z := a[0], a[len(a)/2], a[len(a)-1]
		pivot := max(min(x, y), min(max(x, y), z))
		i, j := 0, len(a)-1
		for i <= j {
			for a[i] < pivot {
				i++
			}
			for a[j] > pivot {
				j--
			}
			if i <= j {
				a[i], a[j] = a[j], a[i]
				i, j = i+1, j-1
			}
		}
		// all of a[:j+1] are below all of a[i:]; an element between these slices has its final
		// place
		switch {
		case n <= j+1:
			a = a[:j+1]
		case n >= i:
			a, n = a[i:], n-i
		default:
			return
		}
	}
}

// rank returns a number that is smaller for larger v. NaN has the largest rank; both zeros have
// equal ranks.
func rank(v float32) uint32 {
	switch b := math.Float32bits(v); {
	case v != v:
		return math.MaxUint32
	case v == 0:
		return 1 << 31
	case v < 0:
		return b
	default:
		return ^b &^ (1 << 31)
	}
}
