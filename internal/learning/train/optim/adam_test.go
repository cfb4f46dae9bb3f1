package optim

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
)

func normals(rng *rand.Rand, n int, scale float64) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(rng.NormFloat64() * scale)
	}
	return v
}

// referenceAdam is Algorithm 1 of Kingma and Ba in float64. A gradient whose norm exceeds clip is
// first scaled down.
type referenceAdam struct{ w, m, v []float64 }

func (a *referenceAdam) step(t int, g []float32, rate, clip float64) {
	norm := 0.0
	for _, x := range g {
		norm += float64(x) * float64(x)
	}
	norm = math.Sqrt(norm)
	scale := 1.0
	if clip > 0 && norm > clip {
		scale = clip / norm
	}
	for i := range g {
		d := scale * float64(g[i])
		a.m[i] = .9*a.m[i] + .1*d
		a.v[i] = .999*a.v[i] + .001*d*d
		m, v := a.m[i]/(1-math.Pow(.9, float64(t))), a.v[i]/(1-math.Pow(.999, float64(t)))
		a.w[i] -= rate * m / (math.Sqrt(v) + 1e-8)
	}
}

func TestAdamAgreesWithFloat64(t *testing.T) {
	for name, clip := range map[string]float64{"unclipped": 0, "clipped": .5} {
		t.Run(name, func(t *testing.T) {
			x := kernel.NewExec(2)
			defer x.Close()
			const n = 3*block/2 + 7
			rng := rand.New(rand.NewPCG(1, 2))
			w := normals(rng, n, .1)
			ref := &referenceAdam{w: make([]float64, n), m: make([]float64, n),
				v: make([]float64, n)}
			for i := range w {
				ref.w[i] = float64(w[i])
			}
			a := NewAdam(n, .9, .999, 1e-8, clip)
			for step := 1; step <= 20; step++ {
				g := normals(rng, n, .01)
				rate := 1e-3 / float64(step)
				norm := a.Step(x, w, g, rate)
				require.InEpsilon(t, .01*math.Sqrt(n), norm, .05)
				ref.step(step, g, rate, clip)
			}
			worst := 0.0
			for i := range w {
				worst = max(worst, math.Abs(ref.w[i]-float64(w[i])))
			}
			require.Less(t, worst, 20*6e-8) // 20 steps, each rounded to 2^-24 of a weight below 1
		})
	}
}

func TestClippingLeavesSmallGradientsAlone(t *testing.T) {
	x := kernel.NewExec(1)
	defer x.Close()
	run := func(clip float64, g []float32) ([]float32, float64) {
		w := make([]float32, len(g))
		a := NewAdam(len(g), .9, .999, 1e-8, clip)
		norm := a.Step(x, w, g, .1)
		return slices.Concat(w, a.M), norm
	}
	small := []float32{.3, -.4}
	free, norm := run(0, small)
	kept, _ := run(1, small)
	require.InDelta(t, .5, norm, 1e-7)
	require.Equal(t, free, kept)

	cut, norm := run(1, []float32{3, -4})
	require.InDelta(t, 5, norm, 1e-6) // the norm before clipping is returned
	require.InDeltaSlice(t, []float32{.06, -.08}, cut[2:], 1e-7)
}

func TestAdamIsTheSameOnAnyNumberOfThreads(t *testing.T) {
	const n = 5*block + 123
	run := func(threads int) []float32 {
		x := kernel.NewExec(threads)
		defer x.Close()
		rng := rand.New(rand.NewPCG(3, 4))
		w := normals(rng, n, 1)
		a := NewAdam(n, .9, .999, 1e-8, .25)
		for range 3 {
			a.Step(x, w, normals(rng, n, 1), 1e-3)
		}
		return slices.Concat(w, a.M, a.V)
	}
	require.Equal(t, run(1), run(3))
}

func TestAdamChangesNothingOnGradientsThatAreNoNumbers(t *testing.T) {
	x := kernel.NewExec(1)
	defer x.Close()
	for _, bad := range []float64{math.NaN(), math.Inf(1)} {
		w := []float32{1, 2}
		a := NewAdam(2, .9, .999, 1e-8, 1)
		norm := a.Step(x, w, []float32{float32(bad), 1}, .1)
		require.False(t, norm < math.MaxFloat64)
		require.Equal(t, []float32{1, 2}, w)
		require.Equal(t, []float32{0, 0}, a.M)
		require.Zero(t, a.Steps)
	}
}

func TestAdamAllocatesNothing(t *testing.T) {
	x := kernel.NewExec(2)
	defer x.Close()
	const n = 3 * block
	w, g := make([]float32, n), make([]float32, n)
	a := NewAdam(n, .9, .999, 1e-8, 1)
	require.Zero(t, testing.AllocsPerRun(10, func() { a.Step(x, w, g, 1e-3) }))
}

func TestSchedule(t *testing.T) {
	s := Schedule{Peak: 2, Final: .1, Warmup: 4, Steps: 105}
	for i, want := range []float64{.5, 1, 1.5, 2, 2} {
		require.InDelta(t, want, s.Rate(i), 1e-12, i)
	}
	require.InDelta(t, (2+.2)/2, s.Rate(54), 1e-12) // halfway down the cosine
	require.InDelta(t, .2, s.Rate(104), 1e-12)
	require.InDelta(t, .2, s.Rate(1000), 1e-12)
	for i := 4; i < 104; i++ {
		require.GreaterOrEqual(t, s.Rate(i), s.Rate(i+1))
	}
	for _, s := range []Schedule{{Peak: 1, Steps: 1}, {Peak: 1, Steps: 2, Warmup: 2},
		{Peak: 1, Steps: 3, Warmup: 2}} {
		for i := range s.Steps {
			require.Greater(t, s.Rate(i), 0.0)
			require.LessOrEqual(t, s.Rate(i), 1.0)
		}
	}
}

func TestMeanOfGradients(t *testing.T) {
	const n = 3*block + 5
	mean := func(threads int) []float32 {
		x := kernel.NewExec(threads)
		defer x.Close()
		rng := rand.New(rand.NewPCG(5, 6))
		m := Mean{Sum: make([]float32, n), Factor: .5}
		a, b := normals(rng, n, 1), normals(rng, n, 1)
		m.Add(x, a)
		m.Add(x, b)
		for i, v := range m.Sum {
			require.InDelta(t, (float64(a[i])+float64(b[i]))/2, v, 1e-6)
		}
		require.Zero(t, testing.AllocsPerRun(3, func() { m.Add(x, a) }))
		return m.Sum
	}
	require.Equal(t, mean(1), mean(3))
}
