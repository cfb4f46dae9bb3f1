package sparsemeta

import (
	"fmt"
	"math"
)

// Statistics hold the root mean square (RMS) of each weight's gradient over chunks of training
// text, in
// 8 bits per weight. The RMS form of dynamic evaluation divides gradients by these values.
//
// Code 0 means 0: the weight never had a gradient. Code c > 0 means
//
//	scale 2^((c-255)/4)
//
// where scale is the largest RMS of the branch. Adjacent codes differ by 19 %, so rounding changes
// a value by at most 9 %. Steps of 4 % gave nearly the same bits per byte, but cost two more bits
// per weight in a compressed file. Positive values below the range get code 1.
type Statistics struct {
	Branches []Branch
	Codes    []uint8   // codes of all branches, end to end
	Scales   []float32 // one for each branch; 0 if all codes of the branch are 0
}

const (
	codeMost   = 255
	codeOctave = 4 // number of codes per factor of 2
)

// NewStatistics encodes the root mean squares rms in 8 bits each. rms has the elements of all
// branches, end to end. Each element must be finite and at least 0.
func NewStatistics(branches []Branch, rms []float32) (*Statistics, error) {
	if size := arenaSize(branches); len(rms) != size {
		return nil, fmt.Errorf("sparsemeta: statistics: found %d root mean squares, want %d",
			len(rms), size)
	}
	s := &Statistics{Branches: branches, Codes: make([]uint8, len(rms)), Scales: make([]float32,
		len(branches))}
	lo := 0
	for i, b := range branches {
		values, codes := rms[lo:lo+b.Size], s.Codes[lo:lo+b.Size]
		for k, v := range values {
			if !(v >= 0 && v <= math.MaxFloat32) {
				return nil, fmt.Errorf("sparsemeta: statistics: %s: element %d: found %v, want a "+
					"finite number, 0 or more", b.Name, k, v)
			}
			s.Scales[i] = max(s.Scales[i], v)
		}
		for k, v := range values {
			codes[k] = codeOf(v, s.Scales[i])
		}
		lo += b.Size
	}
	return s, nil
}

func codeOf(v, scale float32) uint8 {
	if v == 0 {
		return 0
	}
	c := codeMost + math.Round(codeOctave*math.Log2(float64(v)/float64(scale)))
	return uint8(max(c, 1))
}

// Validate checks that every element has a code and every branch has a finite scale. If the scale
// is 0, all codes of the branch must be 0.
func (s *Statistics) Validate() error {
	if size := arenaSize(s.Branches); len(s.Codes) != size || len(s.Scales) != len(s.Branches) {
		return fmt.Errorf("sparsemeta: statistics: found %d codes and %d scales, want %d and %d",
			len(s.Codes), len(s.Scales), size, len(s.Branches))
	}
	lo := 0
	for i, b := range s.Branches {
		scale := s.Scales[i]
		if !(scale >= 0 && scale <= math.MaxFloat32) {
			return fmt.Errorf("sparsemeta: statistics: %s: scale: found %v, want a finite "+
				"number, 0 or more", b.Name, scale)
		}
		for k, c := range s.Codes[lo : lo+b.Size] {
			if scale == 0 && c != 0 {
				return fmt.Errorf("sparsemeta: statistics: %s: element %d: found code %d, want "+
					"0, because the scale is 0", b.Name, k, c)
			}
		}
		lo += b.Size
	}
	return nil
}

func (s *Statistics) values(branch int) (values [codeMost + 1]float64) {
	for c := 1; c <= codeMost; c++ {
		values[c] = float64(s.Scales[branch]) * math.Exp2(float64(c-codeMost)/codeOctave)
	}
	return values
}

func (s *Statistics) sums() []float64 {
	sums, lo := make([]float64, len(s.Branches)), 0
	for i, b := range s.Branches {
		var counts [codeMost + 1]int
		for _, c := range s.Codes[lo : lo+b.Size] {
			counts[c]++
		}
		for c, v := range s.values(i) {
			sums[i] += float64(float64(counts[c]) * v)
		}
		lo += b.Size
	}
	return sums
}

// Normal scales the inputs of g, so that typical gradients of all elements have a similar size. Let
// r be the root mean square of an element's gradients. The element's factor is
//
//	Level / (r + Floor mean)
//
// where mean is the mean of r over the branch. The logarithm in the preprocessing of g then
// measures how unusual a gradient is. Without Normal, most gradients of word embeddings are below
// e^-7, where the preprocessing is linear. Gradients of rare words then look like zero.
type Normal struct {
	Level float32 `json:"level"` // target for the root mean square of the inputs of g
	// term added to an element's root mean square, as a fraction of the branch's mean
	Floor float32 `json:"floor"`
}

// DefaultNormal returns the best of the values that were tried on validation text.
func DefaultNormal() Normal { return Normal{Level: 0.1, Floor: 0.3} }

// Validate returns an error for a number that is out of range.
func (n Normal) Validate() error {
	for name, v := range map[string]float32{"level": n.Level, "floor": n.Floor} {
		if !(v > 0 && v <= math.MaxFloat32) {
			return fmt.Errorf("sparsemeta: normal: %s: found %v, want a finite number above 0",
				name, v)
		}
	}
	return nil
}

func (s *Statistics) factors(dst []float32, branch int, n Normal) []float32 {
	lo := 0
	for _, b := range s.Branches[:branch] {
		lo += b.Size
	}
	codes := s.Codes[lo : lo+s.Branches[branch].Size]
	values, mean := s.values(branch), 0.
	for _, c := range codes {
		mean += values[c]
	}
	mean /= float64(len(codes))
	var factors [codeMost + 1]float32
	for c, r := range values {
		factors[c] = 1
		if mean > 0 {
			factors[c] = float32(min(math.MaxFloat32,
				float64(n.Level)/(r+float64(float64(n.Floor)*mean))))
		}
	}
	for _, c := range codes {
		dst = append(dst, factors[c])
	}
	return dst
}
