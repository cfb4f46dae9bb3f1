package txl

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Sampling says how the next token is drawn. The zero value is greedy.
type Sampling struct {
	Temperature float64 // 0: the likeliest token; 1: the model's own distribution
	TopK        int     // 0: all; else only the K likeliest
	TopP        float64 // 0 or 1: all; else the fewest likeliest tokens of so much probability
	Seed        uint64
}

// Validate reports the first field that is out of range.
func (p Sampling) Validate() error {
	switch {
	case math.IsNaN(p.Temperature) || p.Temperature < 0 || p.Temperature > 100:
		return fmt.Errorf("txl: temperature is %v, expected 0 to 100", p.Temperature)
	case p.TopK < 0:
		return fmt.Errorf("txl: top_k is %d, expected 0 (all) or more", p.TopK)
	case math.IsNaN(p.TopP) || p.TopP < 0 || p.TopP > 1:
		return fmt.Errorf("txl: top_p is %v, expected 0 to 1", p.TopP)
	}
	return nil
}

// Sampler draws tokens. It is deterministic: the same Sampling and the same
// distributions give the same tokens.
type Sampler struct {
	Sampling
	rng   *rand.Rand
	ranks []uint64 // a number for each token, the smaller the likelier; the token is its lower half
	w     []float64
}

// NewSampler returns a sampler for a vocabulary; the sampling must be valid.
func NewSampler(p Sampling, vocab int) *Sampler {
	return &Sampler{
		Sampling: p, rng: rand.New(rand.NewPCG(p.Seed, 0x73616d_706c6572)),
		ranks: make([]uint64, vocab), w: make([]float64, vocab),
	}
}

// Next draws a token from log-probabilities [V]: temperature first, then
// top-k, then top-p, over what is left renormalised. Ties go to the lower id.
func (s *Sampler) Next(logProbs []float32) int32 {
	for i, v := range logProbs[:len(s.ranks)] {
		s.ranks[i] = uint64(rank(v))<<32 | uint64(i)
	}
	if s.Temperature == 0 {
		return int32(slices.Min(s.ranks))
	}
	slices.Sort(s.ranks) // several times as fast as by a function that compares
	kept := len(s.ranks)
	if s.TopK > 0 {
		kept = min(kept, s.TopK)
	}
	best, total := float64(logProbs[int32(s.ranks[0])]), 0.0
	for i, r := range s.ranks[:kept] {
		s.w[i] = math.Exp((float64(logProbs[int32(r)]) - best) / s.Temperature)
		total += s.w[i]
	}
	if s.TopP > 0 && s.TopP < 1 {
		kept, total = nucleus(s.w[:kept], s.TopP*total)
	}
	at := s.rng.Float64() * total
	for i, r := range s.ranks[:kept] {
		if at -= s.w[i]; at < 0 {
			return int32(r)
		}
	}
	return int32(s.ranks[kept-1])
}

// rank is a number that falls where v rises, the largest one for NaN. Both zeros have the same.
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

// nucleus returns how many of the descending weights are needed to reach
// enough, and their sum.
func nucleus(w []float64, enough float64) (n int, sum float64) {
	for n < len(w) && (n == 0 || sum < enough) {
		sum += w[n]
		n++
	}
	return n, sum
}
