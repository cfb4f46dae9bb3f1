package kernel

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPeakRoundsCountsTwoOperationsAMultiplyAdd(t *testing.T) {
	for _, set := range available() {
		e := Arithmetic{Instructions: set}.Vectors()
		one := e.PeakRounds(1)
		require.Zero(t, one%(2*peakSteps*peakChains))
		require.Equal(t, 5*one, e.PeakRounds(5))
	}
	require.Equal(t, 2*peakSteps*peakChains, Vectors{}.PeakRounds(1), "scalars")
	require.Equal(t, peakNameGo, Vectors{}.PeakName())
}

func TestPeakChainsMakeEveryStep(t *testing.T) {
	var chains [peakChains]float32
	peakGo(3, &chains)
	want := float32(0)
	for range 3 * peakSteps {
		want = float32(peakFactor*want) + peakShift
	}
	for _, c := range chains {
		require.Equal(t, want, c)
	}
}
