package sparsemeta

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// testRMS returns root mean squares over some octaves. A few of them are 0. One branch has only
// zeros, as if it never had a gradient.
func testRMS(branches []Branch) []float32 {
	rms := make([]float32, 0, arenaSize(branches))
	for b, branch := range branches {
		for i := range branch.Size {
			v := float32(math.Exp(normal(21, uint64(len(rms))) - 6))
			if b == 1 || i%50 == 7 {
				v = 0
			}
			rms = append(rms, v)
		}
	}
	return rms
}

func testStatistics(t testing.TB, branches []Branch) *Statistics {
	s, err := NewStatistics(branches, testRMS(branches))
	require.NoError(t, err)
	require.NoError(t, s.Validate())
	return s
}

// Each element of an update agrees with the equation in float64. The tolerance covers the float32
// rounding of M and of the two terms in each step.
func TestDynamicEvaluationAgreesWithItsEquations(t *testing.T) {
	branches := testLearner(1).Branches
	stats := testStatistics(t, branches)
	for name, rms := range map[string]*Statistics{"SGD": nil, "RMS": stats} {
		t.Run(name, func(t *testing.T) {
			set := DynamicSettings{Rate: 0.3, Decay: 0.2, Floor: 0.25}
			if rms != nil {
				set.Rate = 1e-3
			}
			d, x := NewDynamic(branches, set, rms), exec(t, 2)
			keep, step := equations(branches, set, rms)
			want := make([]float64, len(d.M))
			for k := range uint64(5) {
				g := gradients(len(d.M), k)
				d.Update(x, g)
				for i := range want {
					want[i] = keep[i]*want[i] - step[i]*float64(g[i])
				}
			}
			for i := range want {
				require.InDelta(t, want[i], d.M[i], 1e-6*math.Abs(want[i])+1e-7*step[i],
					"element %d", i)
			}
			require.NotZero(t, d.M[0])
		})
	}
}

// equations returns the factors of M and of G for each element, from the equations of Dynamic.
func equations(branches []Branch, set DynamicSettings, s *Statistics) (keep, step []float64) {
	if s == nil {
		for range arenaSize(branches) {
			keep, step = append(keep, 1-float64(set.Decay)), append(step, float64(set.Rate))
		}
		return keep, step
	}
	var r []float64
	total := 0.
	for i, b := range branches {
		for range b.Size {
			v := s.values(i)[s.Codes[len(r)]]
			r, total = append(r, v), total+v
		}
	}
	at := 0
	for _, b := range branches {
		mean := 0.
		for _, v := range r[at : at+b.Size] {
			mean += v / float64(b.Size)
		}
		for _, v := range r[at : at+b.Size] {
			keep = append(keep, 1-min(1, float64(set.Decay)*v*float64(len(r))/total))
			if mean == 0 {
				step = append(step, 0)
			} else {
				step = append(step, float64(set.Rate)/(v+float64(set.Floor)*mean))
			}
		}
		at += b.Size
	}
	return keep, step
}

func TestDynamicEvaluationDoesNotDependOnThreads(t *testing.T) {
	branches := testLearner(1).Branches
	for _, rms := range []*Statistics{nil, testStatistics(t, branches)} {
		var want string
		for _, threads := range []int{1, 2, 5} {
			d, x := NewDynamic(branches, DynamicSettings{Rate: 0.1, Decay: 0.01, Floor: 0.3}, rms),
				exec(t, threads)
			for k := range uint64(3) {
				d.Update(x, gradients(len(d.M), k))
			}
			if want == "" {
				want = d.Hash()
			}
			require.Equal(t, want, d.Hash())
		}
	}
}

// If a weight never had a gradient, its root mean square is 0, and no gradient can be divided by
// it. With Floor 0, the weight does not change.
func TestWeightWithoutStatisticsStays(t *testing.T) {
	branches := testLearner(1).Branches
	d := NewDynamic(branches, DynamicSettings{Rate: 1e-3, Decay: 0.5}, testStatistics(t, branches))
	rms := testRMS(branches)
	d.Update(exec(t, 1), gradients(len(d.M), 1))
	for i, r := range rms {
		require.Equal(t, r == 0, d.M[i] == 0, "element %d", i)
	}
}

// For any gradients and rate, M is finite and within its bounds. An update does not clip elements
// within the bounds.
func TestDivergenceIsHeld(t *testing.T) {
	branches := testLearner(1).Branches
	for _, rms := range []*Statistics{nil, testStatistics(t, branches)} {
		d := NewDynamic(branches, DynamicSettings{Rate: 1e30, Decay: 0.1}, rms)
		g := gradients(len(d.M), 1)
		g[0], g[1], g[2] = float32(math.NaN()), float32(math.Inf(1)), math.MaxFloat32
		for range 3 {
			d.Update(exec(t, 1), g)
			for i, m := range d.M {
				require.True(t, m >= -dynamicMost && m <= dynamicMost, "element %d: %v", i, m)
			}
		}
		require.Zero(t, d.M[0])
	}
}

func TestDynamicUpdateAllocatesNothing(t *testing.T) {
	branches := testLearner(1).Branches
	x := exec(t, 2)
	for _, rms := range []*Statistics{nil, testStatistics(t, branches)} {
		d := NewDynamic(branches, RMSSettings(), rms)
		g := gradients(len(d.M), 1)
		require.Zero(t, testing.AllocsPerRun(20, func() { d.Update(x, g) }))
	}
}

func TestDynamicSettingsOutOfRangeAreNamed(t *testing.T) {
	require.NoError(t, SGDSettings().Validate())
	require.NoError(t, RMSSettings().Validate())
	for field, s := range map[string]DynamicSettings{
		"rate": {Rate: -1}, "decay": {Decay: 1.5}, "floor": {Floor: float32(math.Inf(1))},
	} {
		var wrong *SettingError
		require.ErrorAs(t, s.Validate(), &wrong)
		require.Equal(t, field, wrong.Field)
	}
}
