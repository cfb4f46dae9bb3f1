package tune

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func param(name string, start float64) Parameter {
	return Parameter{Name: name, Start: start, Step: 2, Min: 1e-9, Max: 1e9}
}

func octavesApart(a, b float64) float64 { return math.Abs(math.Log2(a / b)) }

// The objective is bowl-shaped in the logarithms of the parameters. From any start, the search
// reaches the bottom of the bowl, within half a fine step in each parameter.
func TestSearchFindsBottomOfBowl(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 3).Draw(t, "parameters")
		var params []Parameter
		var bottom, weight []float64
		for i := range n {
			exponent := rapid.Float64Range(-8, 8)
			params = append(params, param(fmt.Sprint(i), math.Exp2(exponent.Draw(t, "start"))))
			bottom = append(bottom, math.Exp2(exponent.Draw(t, "bottom")))
			weight = append(weight, rapid.Float64Range(0.1, 10).Draw(t, "weight"))
		}
		tried := map[string]bool{}
		f := func(v []float64) (float64, error) {
			require.False(t, tried[fmt.Sprint(v)], "a point is tried once")
			tried[fmt.Sprint(v)] = true
			var sum float64
			for i := range v {
				d := octavesApart(v[i], bottom[i])
				sum += weight[i] * d * d
			}
			return sum, nil
		}
		best, err := Search{Refine: 1}.Minimize(params, f)
		require.NoError(t, err)
		for i, v := range best.Values {
			// Half a fine step is a quarter of an octave, where an octave is a factor of 2. The
			// remaining 0.01 allows for the rounding to three digits.
			require.LessOrEqual(t, octavesApart(v, bottom[i]), 0.26)
		}
	})
}

func TestTrialKnowsHowManyAreLeft(t *testing.T) {
	var trials []Trial
	s := Search{Refine: 1, Visit: func(t Trial) { trials = append(trials, t) }}
	size := Parameter{Name: "size", Start: 4, Step: 2, Min: 1, Max: 100, Whole: true}
	f := func(v []float64) (float64, error) {
		return octavesApart(v[0], 16) + octavesApart(v[1], 1), nil
	}
	_, err := s.Minimize([]Parameter{size, param("rate", 1)}, f)
	require.NoError(t, err)
	best := 0
	for n, trial := range trials {
		if trial.Best {
			best = n
		}
	}
	require.Positive(t, best)
	for n, trial := range trials[best:] {
		require.Equal(t, len(trials)-1-best-n, trial.Left)
	}
}

// If the best value of one parameter depends on another parameter, the objective has a diagonal
// valley. A search that changes only one parameter at a time would stop in the valley before the
// minimum.
func TestSearchFollowsDiagonalValley(t *testing.T) {
	f := func(v []float64) (float64, error) {
		x, y := math.Log2(v[0]), math.Log2(v[1])
		return 100*(x+y)*(x+y) + (x-y-12)*(x-y-12), nil
	}
	best, err := Search{Refine: 1}.Minimize([]Parameter{param("rate", 1), param("decay", 1)}, f)
	require.NoError(t, err)
	require.InEpsilon(t, 64, best.Values[0], 0.01)
	require.InEpsilon(t, 1./64, best.Values[1], 0.01)
}

func TestSearchKeepsToBoundsAndWholeNumbers(t *testing.T) {
	size := Parameter{Name: "size", Start: 10, Step: 2, Min: 1, Max: 100, Whole: true}
	share := Parameter{Name: "share", Start: 0.1, Step: 2, Min: 0.01, Max: 0.99}
	f := func(v []float64) (float64, error) {
		require.Equal(t, math.Round(v[0]), v[0])
		require.True(t, v[0] >= 1 && v[0] <= 100 && v[1] >= 0.01 && v[1] <= 0.99, v)
		return -v[0] + v[1], nil
	}
	best, err := Search{Refine: 1}.Minimize([]Parameter{size, share}, f)
	require.NoError(t, err)
	require.Equal(t, 80., best.Values[0], "the last of the grid")
	require.InEpsilon(t, 0.0125, best.Values[1], 1e-9)
}

func TestSearchLeavesWhatDiverges(t *testing.T) {
	cliff := func(v []float64) (float64, error) {
		if v[0] > 2.5 {
			return math.NaN(), nil
		}
		return 1 / v[0], nil
	}
	for _, start := range []float64{0.01, 4, 1000} {
		best, err := Search{}.Minimize([]Parameter{param("rate", start)}, cliff)
		require.NoError(t, err)
		require.LessOrEqual(t, best.Values[0], 2.5)
		require.Greater(t, 2*best.Values[0], 2.5, "one step from the cliff, starting at %v", start)
	}
	_, err := Search{}.Minimize([]Parameter{param("rate", 1000)}, func([]float64) (float64,
		error) {
		return math.Inf(1), nil
	})
	require.ErrorIs(t, err, ErrNoScore)
	require.ErrorContains(t, err, "1000")
}

func TestFlatObjectiveIsNotFollowed(t *testing.T) {
	n := 0
	best, err := Search{Tolerance: 1e-3}.Minimize([]Parameter{param("a", 1), param("b", 1)},
		func(v []float64) (float64, error) {
			n++
			return 1 - 1e-6*math.Log2(v[0]), nil
		})
	require.NoError(t, err)
	require.Equal(t, []float64{1, 1}, best.Values)
	require.Equal(t, 9, n, "the start and its neighbors")
}

func TestSearchReportsItsTrials(t *testing.T) {
	var trials []Trial
	best, err := Search{Visit: func(t Trial) {
		trials = append(trials,
			t)
	}}.Minimize([]Parameter{param("a", 8)},
		func(v []float64) (float64, error) { return octavesApart(v[0], 2), nil })
	require.NoError(t, err)
	require.Equal(t, []Trial{
		{[]float64{8}, 2, true, 2}, {[]float64{16}, 3, false, 1}, {[]float64{4}, 1, true, 1},
		{[]float64{2}, 0, true, 1}, {[]float64{1}, 1, false, 0},
	}, trials)
	require.Equal(t, trials[3], best)

	broken := errors.New("broken")
	_, err = Search{}.Minimize([]Parameter{param("a", 8)}, func([]float64) (float64,
		error) {
		return 0, broken
	})
	require.ErrorIs(t, err, broken)
	for says, p := range map[string]Parameter{
		"a: step is 1":  {Name: "a", Start: 1, Step: 1, Min: 1, Max: 2},
		"b: start is 3": {Name: "b", Start: 3, Step: 2, Min: 1, Max: 2},
		"c: start is 0": {Name: "c", Step: 2, Max: 2},
	} {
		_, err := Search{}.Minimize([]Parameter{p}, nil)
		require.ErrorContains(t, err, says)
	}
}
