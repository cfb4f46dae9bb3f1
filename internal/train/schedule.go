package train

import "math"

// Schedule is the learning rate of every step of a phase: a linear warm-up to Peak, then a cosine down to Peak*Final at the last step. It
// depends on the number of the step alone, never on time, so that a resumed run follows it to the bit.
type Schedule struct {
	Peak   float64 // largest learning rate
	Final  float64 // fraction of Peak left at the last step, 0..1
	Warmup int     // steps of the warm-up; 0: none
	Steps  int     // of the whole phase
}

// Rate returns the learning rate of step t, 0 <= t < Steps. The first warm-up step already has Peak/Warmup.
func (s Schedule) Rate(t int) float64 {
	if t < s.Warmup {
		return s.Peak * float64(t+1) / float64(s.Warmup)
	}
	span := s.Steps - 1 - s.Warmup
	if span <= 0 {
		return s.Peak
	}
	progress := math.Min(1, float64(t-s.Warmup)/float64(span))
	return s.Peak * (s.Final + (1-s.Final)*0.5*(1+math.Cos(math.Pi*progress)))
}
