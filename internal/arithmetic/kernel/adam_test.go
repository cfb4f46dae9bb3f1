package kernel

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestAdamHasTheSameBitsEverywhere(t *testing.T) {
	assembly := others(t)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 70).Draw(t, "n")
		odd := rapid.SampledFrom([]int{0, 10, 1}).Draw(t, "odd")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		floats := func() []float32 {
			s := make([]float32, n)
			for i := range s {
				s[i] = float32(rng.NormFloat64() * math.Exp(4*rng.NormFloat64()-7))
				if odd > 0 && rng.IntN(odd) == 0 {
					s[i] = awkward[rng.IntN(len(awkward))]
				}
			}
			return s
		}
		a := Adam{Scale: rng.Float32(), Beta1: rng.Float32(), Beta2: rng.Float32(),
			Rate: rng.Float32(), Root: 1 + rng.Float32(), Eps: 1e-8}
		before := [][]float32{floats(), floats(), floats(), floats()}
		after := func(e Vectors) []float32 {
			w, m, v := slices.Clone(before[0]), slices.Clone(before[1]), slices.Clone(before[2])
			e.Adam(&a, w, m, v, before[3])
			return slices.Concat(w, m, v)
		}
		for _, e := range assembly {
			requireSameBits(t, after(Vectors{}), after(e))
		}
	})
}

func BenchmarkAdam(b *testing.B) {
	const n = 1 << 14
	w, m, v, g := normal(n), normal(n), normal(n), normal(n)
	for i := range v {
		v[i] *= v[i]
	}
	a := Adam{Scale: 1, Beta1: 0.9, Beta2: 0.999, Rate: 1e-3, Root: 1, Eps: 1e-8}
	e := Arithmetic{}.Vectors()
	for b.Loop() {
		e.Adam(&a, w, m, v, g)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/element")
}
