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

// BenchmarkAdaptation is the update in the first-level cache, and so the cost of its
// arithmetic; "narrow" looks up few places of the grid, "wide" many.
func BenchmarkAdaptation(b *testing.B) {
	for name, sigma := range map[string]float64{"narrow": 0, "wide": 2} {
		for _, n := range []int{512, 1024} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				a := &Adaptation{I: make([]float32, n), M: make([]float32, n), G: make([]float32, n), Gamma: 0, Beta1: 0.5, Beta2: 0.5, Out: 0.01, Grid: new(Grid), Threshold: MaskAll / 2}
				for e := range a.G {
					a.G[e] = float32(math.Exp(rand.NormFloat64()*sigma-9) * (2*rand.Float64() - 1))
				}
				for b.Loop() {
					a.Run()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/element")
			})
		}
	}
}

// rough is a function with values of many sizes on the grid, and another one off it.
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

// awkward are the numbers that arithmetic treats apart, and the edges of the grid.
var awkward = []float32{0, float32(math.Copysign(0, -1)), float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)),
	math.SmallestNonzeroFloat32, -3e-42, 1.2e-38, math.MaxFloat32, -math.MaxFloat32,
	float32(4095 / GridScale), math.Nextafter32(float32(4095/GridScale), 0), math.Nextafter32(float32(4095/GridScale), 9), -4095 / GridScale, 1e-3, -1e-3}

// adaptation makes an arbitrary run of n elements. About one in odd of the inputs is awkward.
func adaptation(rng *rand.Rand, n, odd int, scaled, traced, summed, masked bool) *Adaptation {
	floats := func() []float32 {
		offset := rng.IntN(9) // in memory, so that nothing is aligned
		s := make([]float32, offset+n)[offset:]
		for i := range s {
			s[i] = float32(rng.NormFloat64() * math.Exp(2*rng.NormFloat64()-7))
			if odd > 0 && rng.IntN(odd) == 0 {
				s[i] = awkward[rng.IntN(len(awkward))]
			}
		}
		return s
	}
	f := theRough
	a := &Adaptation{I: floats(), M: floats(), G: floats(), Grid: &f.grid, Beyond: f,
		Gamma: rng.Float32(), Beta1: rng.Float32(), Beta2: rng.Float32(), Out: rng.Float32() + 0.1,
		Key: rng.Uint64(), Counter: rng.Uint64(), Threshold: uint32(rng.IntN(MaskAll + 1))}
	if scaled {
		a.Scale = floats()
	}
	if traced {
		a.X = floats()
	}
	if summed {
		a.Prior, a.Sum = floats(), floats()
	}
	if masked {
		a.Mask = make([]uint8, n)
		for e := range a.Mask {
			a.Mask[e] = uint8(rng.IntN(3))
		}
	}
	return a
}

// outputs copies what Run writes.
func (a *Adaptation) outputs() (s []float32) {
	return slices.Concat(a.I, a.M, a.X, a.Sum)
}

// requireSameRun runs an adaptation with the portable code and with the assembly.
func requireSameRun(t require.TestingT, a *Adaptation) {
	defer setSIMD(true)
	b := *a
	for _, s := range []*[]float32{&b.I, &b.M, &b.X, &b.Sum} {
		*s = slices.Clone(*s)
	}
	setSIMD(false)
	want := a.Run()
	setSIMD(true)
	require.Equal(t, want, b.Run(), "elements written")
	requireSameBits(t, a.outputs(), b.outputs())
}

func TestAdaptationHasTheSameBitsEverywhere(t *testing.T) {
	if !haveSIMD {
		t.Skip("no assembly here")
	}
	rapid.Check(t, func(t *rapid.T) {
		flag := func(name string) bool { return rapid.Bool().Draw(t, name) }
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		n := rapid.OneOf(rapid.IntRange(0, 70), rapid.IntRange(0, 3000)).Draw(t, "n")
		a := adaptation(rng, n, rapid.SampledFrom([]int{0, 2, 50, 1000}).Draw(t, "odd"), flag("scaled"), flag("traced"), flag("summed"), flag("masked"))
		a.Threshold = rapid.OneOf(rapid.SampledFrom([]uint32{0, 1, MaskAll - 1, MaskAll}), rapid.Uint32Range(0, MaskAll)).Draw(t, "threshold")
		requireSameRun(t, a)
	})
}

func FuzzAdaptation(f *testing.F) {
	f.Add(uint64(1), uint16(300), uint8(3), uint32(MaskAll/2), uint8(0))
	f.Add(uint64(2), uint16(16), uint8(0), uint32(MaskAll), uint8(7))
	f.Add(uint64(3), uint16(1000), uint8(1), uint32(1), uint8(5))
	f.Fuzz(func(t *testing.T, seed uint64, n uint16, odd uint8, threshold uint32, flags uint8) {
		if !haveSIMD {
			t.Skip("no assembly here")
		}
		a := adaptation(rand.New(rand.NewPCG(seed, 1)), int(n%3000), int(odd), flags&1 != 0, flags&2 != 0, flags&4 != 0, flags&8 != 0)
		a.Threshold = threshold % (MaskAll + 1)
		requireSameRun(t, a)
	})
}

// One element after the other, by the definition.
func TestAdaptationFollowsItsDefinition(t *testing.T) {
	eachKernel(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(5, 5))
		for _, n := range []int{1, 15, 16, 17, 300, 1100} {
			a := adaptation(rng, n, 20, true, true, true, false)
			avg, m, trace, sum := slices.Clone(a.I), slices.Clone(a.M), slices.Clone(a.X), slices.Clone(a.Sum)
			written := 0
			for e := range n {
				avg[e] = float32(a.Gamma*avg[e]) + float32(a.Beta1*a.G[e])
				if uint32(Bits(a.Key, a.Counter+uint64(e/4))>>(16*(e%4))&0xFFFF) < a.Threshold {
					x := (avg[e] + float32(a.Beta2*a.G[e])) * a.Scale[e]
					y := theRough.Beyond(x)
					if i, w, ok := Locate(x); ok {
						y = a.Grid[i] + float32(w*(a.Grid[i+1]-a.Grid[i]))
					}
					m[e] = a.Out * y
					trace[e] = x
					if x != x {
						trace[e] = 0
					}
					written++
				}
				sum[e] = a.Prior[e] + m[e]
			}
			require.Equal(t, written, a.Run())
			requireSameBits(t, slices.Concat(avg, m, trace, sum), a.outputs())
		}
	})
}

// A place outside of its slices is not touched.
func TestAdaptationKeepsToItsSlices(t *testing.T) {
	eachKernel(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(6, 6))
		a := adaptation(rng, 1000, 50, true, true, true, false)
		whole := *a
		before := a.outputs()
		const lo, hi = 100, 100 + 555
		for _, s := range []*[]float32{&a.I, &a.M, &a.G, &a.Scale, &a.X, &a.Prior, &a.Sum} {
			*s = (*s)[lo:hi]
		}
		a.Run()
		after := whole.outputs()
		for part := range 4 {
			o := 1000 * part
			requireSameBits(t, before[o:o+lo], after[o:o+lo])
			requireSameBits(t, before[o+hi:o+1000], after[o+hi:o+1000])
		}
	})
}

func TestAdaptationAllocatesNothing(t *testing.T) {
	eachKernel(t, func(t *testing.T) {
		a := adaptation(rand.New(rand.NewPCG(7, 7)), 1003, 30, true, true, true, false)
		require.Zero(t, testing.AllocsPerRun(10, func() { a.Run() }))
	})
}
