package optim

import "math"

// Schedules of the learning rate: values of Schedule.Kind.
const (
	ScheduleCosine   = "cosine"
	ScheduleWSD      = "wsd"
	ScheduleConstant = "constant"
)

// decayPart is the last fraction of a phase's steps, in which ScheduleWSD lowers the rate.
const decayPart = 0.2

// Schedule gives the learning rate of every step of a phase. A linear warm-up leads to Peak. Kind
// says whether and how the rate then decays. A decay reaches Peak*Final at the last step. The rate
// depends only on the number of the step, so that a resumed run has the same rates.
type Schedule struct {
	// Kind is one of
	//   - ScheduleCosine, also "": a cosine from the warm-up to the end;
	//   - ScheduleWSD (warm-up, stable, decay): Peak until the last fifth of the steps, then a
	//     straight line;
	//   - ScheduleConstant: Peak to the end, for a run that another run continues with a decay.
	// With ScheduleWSD and ScheduleConstant, the rates before the decay do not depend on Steps.
	Kind   string
	Peak   float64
	Final  float64 // fraction of Peak at the last step, 0 to 1
	Warmup int     // steps of the warm-up; 0 means no warm-up
	Steps  int
}

// Rate returns the learning rate of step t, 0 <= t < Steps. The first step of the warm-up has the
// rate Peak/Warmup.
func (s Schedule) Rate(t int) float64 {
	if t < s.Warmup {
		return s.Peak * float64(t+1) / float64(s.Warmup)
	}
	from := s.DecayStart()
	if t < from {
		return s.Peak
	}
	span := s.Steps - 1 - from
	if span <= 0 {
		return s.Peak
	}
	progress := math.Min(1, float64(t-from)/float64(span))
	if s.Kind == ScheduleWSD {
		return s.Peak * (1 - (1-s.Final)*progress)
	}
	return s.Peak * (s.Final + (1-s.Final)*0.5*(1+math.Cos(math.Pi*progress)))
}

// DecayStart returns the step at which the decay begins, or Steps if there is no decay.
func (s Schedule) DecayStart() int {
	switch s.Kind {
	case ScheduleWSD:
		return max(s.Warmup, s.Steps-int(math.Ceil(decayPart*float64(s.Steps))))
	case ScheduleConstant:
		return s.Steps
	}
	return s.Warmup
}
