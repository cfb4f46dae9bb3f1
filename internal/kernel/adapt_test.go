package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
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
