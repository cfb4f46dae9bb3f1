package optim

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestSchedulesRiseOnceAndFallOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Schedule{
			Kind: rapid.SampledFrom([]string{ScheduleCosine, ScheduleWSD, ScheduleConstant}).Draw(t,
				"kind"), Peak: .5,
			Final: rapid.Float64Range(0, 1).Draw(t, "final"), Steps: rapid.IntRange(20,
				2000).Draw(t, "steps"),
		}
		s.Warmup = rapid.IntRange(0, s.Steps/2).Draw(t, "warmup")
		last := 0.0
		for i := range s.Steps {
			rate := s.Rate(i)
			if i < s.Warmup {
				require.InDelta(t, s.Peak*float64(i+1)/float64(s.Warmup), rate, 1e-12)
			} else if i > s.Warmup {
				require.LessOrEqual(t, rate, last)
			}
			last = rate
		}
		end := s.Peak * s.Final
		if s.Kind == ScheduleConstant {
			end = s.Peak
		}
		require.InDelta(t, end, last, 1e-12)
	})
}

func TestWSDIsStableUntilTheLastFifth(t *testing.T) {
	s := Schedule{Kind: ScheduleWSD, Peak: 1, Final: .1, Warmup: 10, Steps: 100}
	require.Equal(t, .5, s.Rate(4))
	for i := 9; i <= 80; i++ {
		require.Equal(t, 1.0, s.Rate(i), i)
	}
	require.Less(t, s.Rate(81), 1.0)
	require.InDelta(t, (s.Rate(85)+s.Rate(95))/2, s.Rate(90), 1e-12)
	longer := s
	longer.Steps = 1000
	for i := range 80 {
		require.Equal(t, s.Rate(i), longer.Rate(i), "what comes before the decay does not depend "+
			"on the steps in all")
	}
}
