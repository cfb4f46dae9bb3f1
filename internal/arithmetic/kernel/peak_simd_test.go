//go:build amd64 && !noasm

package kernel

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// PeakRounds counts steps, so the assembly must do this number of steps in every lane of every
// chain.
func TestPeakAssemblyMakesEveryStep(t *testing.T) {
	for _, kernel := range []struct {
		name  string
		have  bool
		lanes int
		run   func(rounds int, chains *float32)
	}{
		{"AVX2", machine >= AVX2, 8, peakAVX2},
		{"AVX512", machine >= AVX512, 16, peakAVX512},
	} {
		t.Run(kernel.name, func(t *testing.T) {
			if !kernel.have {
				t.Skip("this machine cannot run it")
			}
			for _, rounds := range []int{1, 2, 7} {
				chains := make([]float32, kernel.lanes*peakChains+1)
				for i := range chains {
					chains[i] = float32(i)
				}
				kernel.run(rounds, &chains[0])
				for i, got := range chains[:kernel.lanes*peakChains] {
					want := float32(i)
					for range rounds * peakSteps {
						want = float32(float64(peakFactor)*float64(want) + float64(peakShift))
					}
					// The reference in float64 rounds each step twice, so it may differ in the last
					// bit.
					require.InEpsilon(t, want, got, 1e-6, "chain %d", i)
				}
				require.Equal(t, float32(kernel.lanes*peakChains), chains[kernel.lanes*peakChains],
					"nothing beyond is touched")
			}
		})
	}
}
