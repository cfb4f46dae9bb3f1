package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// BenchmarkAdaptation measures Adapt on arrays that fit in the first-level cache, so that
// arithmetic dominates. The inputs of the case "narrow" use few grid points, and those of "wide"
// use many.
func BenchmarkAdaptation(b *testing.B) {
	for name, sigma := range map[string]float64{"narrow": 0, "wide": 2} {
		for _, held := range []Precision{Float32, BF16} {
			const n = 1024
			b.Run(fmt.Sprintf("%s/%s", name, held), func(b *testing.B) {
				a := &Adaptation{I: NewArray(n, held), M: NewArray(n, held), G: make([]float32, n),
					Gamma: 0, Beta1: 0.5, Beta2: 0.5, Out: 0.01, Grid: new(Grid),
					Threshold: MaskAll / 2}
				for e := range a.G {
					a.G[e] = float32(math.Exp(rand.NormFloat64()*sigma-9) * (2*rand.Float64() - 1))
				}
				x := Arithmetic{}.Vectors()
				for b.Loop() {
					x.Adapt(a)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n),
					"ns/element")
			})
		}
	}
}

// rough is a function with values of different magnitudes on the grid, and a different formula
// outside.
type rough struct{ grid Grid }

func newRough() *rough {
	f := new(rough)
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range f.grid {
		f.grid[i] = float32(rng.NormFloat64() * math.Exp2(float64(rng.IntN(40)-20)))
	}
	return f
}

func (f *rough) Beyond(x float32) float32 {
	if x != x {
		return 7
	}
	return 3 + x/2
}

var theRough = newRough()

// awkward are the special values of float32, and values at the edges of the grid.
var awkward = []float32{0, float32(math.Copysign(0, -1)), float32(math.NaN()), float32(math.Inf(1)),
	float32(math.Inf(-1)),
	math.SmallestNonzeroFloat32, -3e-42, 1.2e-38, math.MaxFloat32, -math.MaxFloat32,
	float32(4095 / GridScale), math.Nextafter32(float32(4095/GridScale), 0),
	math.Nextafter32(float32(4095/GridScale), 9), -4095 / GridScale, 1e-3, -1e-3}

// adaptation returns a random Adaptation of n elements. About one input in `odd` is an awkward
// value.
func adaptation(rng *rand.Rand, n, odd int, half, scaled, traced, masked bool) *Adaptation {
	floats := func() []float32 {
		offset := rng.IntN(9) // makes the arrays unaligned in memory
		s := make([]float32, offset+n)[offset:]
		for i := range s {
			s[i] = float32(rng.NormFloat64() * math.Exp(2*rng.NormFloat64()-7))
			if odd > 0 && rng.IntN(odd) == 0 {
				s[i] = awkward[rng.IntN(len(awkward))]
			}
		}
		return s
	}
	array := func() Array {
		a := Array{F32: floats()}
		if half {
			a.BF16 = make([]uint16, rng.IntN(9)+n)
			a.BF16 = a.BF16[len(a.BF16)-n:]
			for i, v := range a.F32 {
				a.BF16[i] = uint16(roundBF16(v))
			}
			a.F32 = nil
		}
		return a
	}
	f := theRough
	a := &Adaptation{I: array(), M: array(), G: floats(), Grid: &f.grid, Beyond: f,
		Gamma: rng.Float32(), Beta1: rng.Float32(), Beta2: rng.Float32(), Out: rng.Float32() + 0.1,
		Key: rng.Uint64(), Counter: rng.Uint64(), Threshold: uint32(rng.IntN(MaskAll + 1))}
	if scaled {
		a.Scale = floats()
	}
	if traced {
		a.X = floats()
	}
	if masked {
		a.Mask = make([]uint8, n)
		for e := range a.Mask {
			a.Mask[e] = uint8(rng.IntN(3))
		}
	}
	return a
}

func (a *Adaptation) outputs() (s []float32) {
	return slices.Concat(loaded(a.I), loaded(a.M), a.X)
}

func loaded(a Array) []float32 {
	s := make([]float32, a.Len())
	Vectors{}.Load(s, a)
	return s
}

func (a Array) clone() Array { return Array{slices.Clone(a.F32), slices.Clone(a.BF16)} }

func requireSameRun(t require.TestingT, assembly []Vectors, a *Adaptation) {
	for _, e := range assembly {
		b, c := *a, *a
		b.I, b.M, b.X = a.I.clone(), a.M.clone(), slices.Clone(a.X)
		c.I, c.M, c.X = a.I.clone(), a.M.clone(), slices.Clone(a.X)
		require.Equal(t, Vectors{}.Adapt(&b), e.Adapt(&c), "elements written")
		requireSameBits(t, b.outputs(), c.outputs())
	}
}

func TestAdaptationHasTheSameBitsEverywhere(t *testing.T) {
	assembly := others(t)
	rapid.Check(t, func(t *rapid.T) {
		flag := func(name string) bool { return rapid.Bool().Draw(t, name) }
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		n := rapid.OneOf(rapid.IntRange(0, 70), rapid.IntRange(0, 3000),
			rapid.IntRange(8190, 8400)).Draw(t, "n")
		a := adaptation(rng, n, rapid.SampledFrom([]int{0, 2, 50, 1000}).Draw(t, "odd"),
			flag("half"), flag("scaled"), flag("traced"), flag("masked"))
		a.Threshold = rapid.OneOf(rapid.SampledFrom([]uint32{0, 1, MaskAll - 1, MaskAll}),
			rapid.Uint32Range(0, MaskAll)).Draw(t, "threshold")
		requireSameRun(t, assembly, a)
	})
}

func FuzzAdaptation(f *testing.F) {
	f.Add(uint64(1), uint16(300), uint8(3), uint32(MaskAll/2), uint8(0))
	f.Add(uint64(2), uint16(16), uint8(0), uint32(MaskAll), uint8(7))
	f.Add(uint64(3), uint16(1000), uint8(1), uint32(1), uint8(5))
	assembly := others(f)
	f.Fuzz(func(t *testing.T, seed uint64, n uint16, odd uint8, threshold uint32, flags uint8) {
		a := adaptation(rand.New(rand.NewPCG(seed, 1)), int(n%3000), int(odd), flags&1 != 0,
			flags&2 != 0, flags&4 != 0, flags&8 != 0)
		a.Threshold = threshold % (MaskAll + 1)
		requireSameRun(t, assembly, a)
	})
}

func TestAdaptationFollowsItsDefinition(t *testing.T) {
	eachKernel(t, 1, func(t *testing.T, x *Exec) {
		rng := rand.New(rand.NewPCG(5, 5))
		for _, n := range []int{1, 15, 16, 17, 300, 1100} {
			for _, half := range []bool{false, true} {
				a := adaptation(rng, n, 20, half, true, true, false)
				avg, m, trace := loaded(a.I), loaded(a.M), slices.Clone(a.X)
				written := 0
				for e := range n {
					lane := uint16(Bits(a.Key, a.Counter+uint64(e/4)) >> (16 * (e % 4)))
					avg[e] = float32(a.Gamma*avg[e]) + float32(a.Beta1*a.G[e])
					if half {
						avg[e] = widenBF16(drawBF16(avg[e], 0x9E37*lane))
					}
					if uint32(lane) < a.Threshold {
						in := (avg[e] + float32(a.Beta2*a.G[e])) * a.Scale[e]
						y := theRough.Beyond(in)
						if i, w, ok := Locate(in); ok {
							y = a.Grid[i] + float32(w*(a.Grid[i+1]-a.Grid[i]))
						}
						m[e] = a.Out * y
						if half {
							m[e] = widenBF16(uint16(roundBF16(m[e])))
						}
						trace[e] = in
						if in != in {
							trace[e] = 0
						}
						written++
					}
				}
				require.Equal(t, written, x.Adapt(a))
				requireSameBits(t, slices.Concat(avg, m, trace), a.outputs())
			}
		}
	})
}

func TestAdaptationKeepsToItsSlices(t *testing.T) {
	eachKernel(t, 1, func(t *testing.T, e *Exec) {
		for _, half := range []bool{false, true} {
			a := adaptation(rand.New(rand.NewPCG(6, 6)), 1000, 50, half, true, true, false)
			whole := *a
			before := a.outputs()
			const lo, hi = 100, 100 + 555
			a.I, a.M = a.I.Range(lo, hi), a.M.Range(lo, hi)
			for _, s := range []*[]float32{&a.G, &a.Scale, &a.X} {
				*s = (*s)[lo:hi]
			}
			e.Adapt(a)
			after := whole.outputs()
			for part := range 3 {
				o := 1000 * part
				requireSameBits(t, before[o:o+lo], after[o:o+lo])
				requireSameBits(t, before[o+hi:o+1000], after[o+hi:o+1000])
			}
		}
	})
}

func TestAdaptationAllocatesNothing(t *testing.T) {
	eachKernel(t, 1, func(t *testing.T, e *Exec) {
		for _, half := range []bool{false, true} {
			a := adaptation(rand.New(rand.NewPCG(7, 7)), 1003, 30, half, true, true, false)
			require.Zero(t, testing.AllocsPerRun(10, func() { e.Adapt(a) }))
		}
	})
}

// The random numbers that round gradient averages are uniform, both for the elements that the mask
// selects and for the others.
func TestAveragesAreRoundedEvenlyWhateverTheMask(t *testing.T) {
	for _, threshold := range []int{1000, 3277, MaskAll / 2, MaskAll - 3277} {
		var sums, ups, counts [2]float64
		for lane := range MaskAll {
			r := roundLane * uint16(lane)
			on := 0
			if lane < threshold {
				on = 1
			}
			counts[on]++
			sums[on] += float64(r)
			if r >= MaskAll*9/10 {
				ups[on]++
			}
		}
		for on, n := range counts {
			require.InDelta(t, 0.5, sums[on]/n/MaskAll, 0.005, "threshold %d, mask %d", threshold,
				on)
			require.InDelta(t, 0.1, ups[on]/n, 0.005, "threshold %d, mask %d", threshold, on)
		}
	}
}

// Updates that are too small for rounding to nearest still change gradient averages in bfloat16.
// After many updates, their mean equals the mean of float32 averages, within the random error.
func TestBF16AveragesKeepMoving(t *testing.T) {
	eachKernel(t, 1, func(t *testing.T, x *Exec) {
		const n, steps = 4096, 200
		a := &Adaptation{I: NewArray(n, BF16), M: NewArray(n, BF16), G: make([]float32, n),
			Grid: new(Grid), Gamma: 0.9995, Beta1: 0.5, Threshold: MaskAll / 2}
		want := float32(1)
		for e := range a.G {
			a.G[e], a.I.BF16[e] = 1e-4, uint16(roundBF16(1))
		}
		for step := range uint64(steps) {
			a.Key = Key(1, step)
			x.Adapt(a)
			want = a.Gamma*want + a.Beta1*1e-4
		}
		var mean float64
		for _, v := range loaded(a.I) {
			mean += float64(v) / n
		}
		// Neighboring bfloat16 numbers differ by 2^-8 or 2^-7 here, and an element moves with
		// probability below .1 per update. Over 200 updates the standard deviation is about .02.
		require.InDelta(t, want, mean, 5*0.03/math.Sqrt(n))
		require.Less(t, want, float32(0.95))
	})
}
