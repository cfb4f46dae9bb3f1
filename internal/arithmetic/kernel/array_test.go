package kernel

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestArrayIsItsElements(t *testing.T) {
	eachKernel(t, 1, func(t *testing.T, e *Exec) {
		rng := rand.New(rand.NewPCG(1, 1))
		for _, held := range []Precision{Float32, BF16} {
			for _, n := range []int{0, 1, 7, 8, 9, 300} {
				a, b := NewArray(n, held), NewArray(n, held)
				for i := range n {
					v := float32(rng.NormFloat64())
					if held == BF16 {
						a.BF16[i] = uint16(roundBF16(v))
					} else {
						a.F32[i] = v
					}
				}
				require.Equal(t, n, a.Len())
				require.EqualValues(t, map[Precision]int{Float32: 4 * n, BF16: 2 * n}[held],
					a.Bytes())
				b.CopyFrom(a)
				sum := make([]float32, n)
				e.Load(sum, b)
				e.AddTo(sum[n/3:n/2], a.Range(n/3, n/2))
				for i := range n {
					want := a.At(i)
					if i >= n/3 && i < n/2 {
						want += want
					}
					require.Equal(t, want, sum[i])
				}
				b.Clear()
				require.Equal(t, NewArray(n, held), b)
			}
		}
	})
}

func TestArraysThatDoNotFitPanic(t *testing.T) {
	half := NewArray(3, BF16)
	require.Panics(t, func() { NewArray(1, "float64") })
	require.Panics(t, func() { half.CopyFrom(NewArray(3, Float32)) })
	require.Panics(t, func() { Vectors{}.Load(make([]float32, 2), half) })
	require.Panics(t, func() { Vectors{}.AddTo(make([]float32, 4), half) })
}

// The mean of drawBF16 over all random numbers r equals its argument.
func TestRandomRoundingIsEvenOnAverage(t *testing.T) {
	for _, x := range []float32{0, 1, -1.0001, 3.1415927, -1e-3, 1e-39, math.SmallestNonzeroFloat32,
		0x1.ffp3} {
		var mean float64
		for r := range 1 << 16 {
			mean += float64(widenBF16(drawBF16(x, uint16(r)))) / (1 << 16)
		}
		require.InDelta(t, x, mean, 1e-9*math.Abs(float64(x)))
	}
	for _, r := range []uint16{0, 1, 0x8000, 0xffff} {
		require.True(t, math.IsInf(float64(widenBF16(drawBF16(float32(math.Inf(-1)), r))), -1))
		for _, bits := range []uint32{0x7f800001, 0x7fffffff, 0xffffffff, 0xff800001} {
			v := widenBF16(drawBF16(math.Float32frombits(bits), r))
			require.NotEqual(t, v, v, "NaN stays NaN")
		}
	}
}
