package kernel

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestExpOverTheWholeRange(t *testing.T) {
	eachKernel(t, func(t *testing.T) {
		var src, dst [64]float32
		worst := 0.0
		for lo := -104.0; lo < 89; lo += 64 * 0.0007 {
			for i := range src {
				src[i] = float32(lo + float64(i)*0.0007)
			}
			Exp(dst[:], src[:])
			for i, v := range src {
				want, got := math.Exp(float64(v)), float64(dst[i])
				switch {
				case want > math.MaxFloat32:
					require.True(t, got > math.MaxFloat32/(1+1e-6), "e^%v = %v", v, got)
				case want < 0x1p-126: // subnormal: an absolute error
					require.InDelta(t, want, got, 0x1p-149, "e^%v", v)
				default:
					worst = max(worst, math.Abs(got-want)/want)
				}
			}
		}
		require.Less(t, worst, 1.2e-7)
		t.Logf("largest relative error %.3g", worst)
	})
}

func TestExpAtTheEnds(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	eachKernel(t, func(t *testing.T) {
		x := []float32{0, -inf, inf, -1e30, 1e30, -104, 88.73, nan, float32(math.Copysign(0, -1)), -inf, nan}
		Exp(x, x)
		requireSameBits(t, []float32{1, 0, inf, 0, inf, 0, inf, nan, 1, 0, nan}, x)
	})
}

func TestVectorFunctionsHaveTheSameBitsEverywhere(t *testing.T) {
	if !haveSIMD {
		t.Skip("no assembly here")
	}
	defer setSIMD(true)
	for n := range 70 {
		x, y := normal(n), normal(n)
		var results [2][]float32
		for i, on := range []bool{false, true} {
			setSIMD(on)
			r := append([]float32{Dot(x, y), LogSumExp(x)}, x...)
			Softmax(r[2:], 1.5)
			r = append(r, y...)
			Axpy(r[2+n:], -0.3, x)
			r = append(r, x...)
			Exp(r[2+2*n:], y)
			results[i] = r
		}
		requireSameBits(t, results[0], results[1])
	}
}

func TestSoftmaxAndLogSumExpAgreeWithFloat64(t *testing.T) {
	eachKernel(t, func(t *testing.T) {
		for _, n := range []int{1, 2, 7, 8, 9, 100, 256, 641} {
			row, scale := normal(n), float32(3)
			row[n/2] = 80 // would overflow without its maximum taken off
			row[0] = float32(math.Inf(-1))
			if n == 1 {
				row[0] = -80
			}
			total, totalScaled := 0.0, 0.0
			for _, v := range row {
				total += math.Exp(float64(v))
				totalScaled += math.Exp(float64(scale) * float64(v))
			}
			require.InEpsilon(t, math.Log(total), float64(LogSumExp(row)), 1e-6)
			want := make([]float64, n)
			for i, v := range row {
				want[i] = math.Exp(float64(scale)*float64(v)) / totalScaled
			}
			Softmax(row, scale)
			for i := range row {
				require.InDelta(t, want[i], float64(row[i]), 1e-5*want[i]+1e-37) // 240 as a float32 is off by up to 8e-6
			}
		}
	})
}

func TestLogSumExpOfInfinities(t *testing.T) {
	inf := float32(math.Inf(1))
	require.Equal(t, -inf, LogSumExp(nil))
	require.Equal(t, -inf, LogSumExp([]float32{-inf, -inf}))
	require.Equal(t, inf, LogSumExp([]float32{1, inf}))
}

func TestSoftmaxOfAnUnmaskedRowSumsToOne(t *testing.T) {
	row := normal(256)
	Softmax(row, 0) // no scale: uniform
	for _, v := range row {
		require.Equal(t, float32(1)/256, v)
	}
	Softmax(nil, 1)
}

func TestDotAndAxpyAgreeWithFloat64(t *testing.T) {
	eachKernel(t, func(t *testing.T) {
		for range 100 {
			n := rand.IntN(200)
			x, y := normal(n), normal(n)
			sum, size := 0.0, 0.0
			for i := range x {
				sum += float64(x[i]) * float64(y[i])
				size += math.Abs(float64(x[i]) * float64(y[i]))
			}
			require.InDelta(t, sum, float64(Dot(x, y)), size*float64(n+1)/(1<<24))
			want := make([]float32, n)
			for i := range want {
				want[i] = y[i] + float32(2.5*x[i])
			}
			Axpy(y, 2.5, x)
			requireSameBits(t, want, y)
		}
	})
}
