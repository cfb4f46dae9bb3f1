package kernel

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestExpOverTheWholeRange(t *testing.T) {
	eachKernel(t, 1, func(t *testing.T, e *Exec) {
		var src, dst [64]float32
		worst := 0.0
		for lo := -104.0; lo < 89; lo += 64 * 0.0007 {
			for i := range src {
				src[i] = float32(lo + float64(i)*0.0007)
			}
			e.Exp(dst[:], src[:])
			for i, v := range src {
				want, got := math.Exp(float64(v)), float64(dst[i])
				switch {
				case v > 88.37:
					require.True(t, math.IsInf(got, 1) || v < 88.38, "e^%v = %v", v, got)
				case v < -87:
					require.Zero(t, got, "e^%v", v)
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
	eachKernel(t, 1, func(t *testing.T, e *Exec) {
		x := []float32{0, -inf, inf, -1e30, 1e30, -104, 88.73, nan, float32(math.Copysign(0, -1)),
			-inf, nan}
		e.Exp(x, x)
		requireSameBits(t, []float32{1, 0, inf, 0, inf, 0, inf, nan, 1, 0, nan}, x)
	})
}

func TestLogOverTheWholeRange(t *testing.T) {
	eachKernel(t, 1, func(t *testing.T, e *Exec) {
		var src, dst [64]float32
		worst := 0.0
		for bits := uint32(0x00800000); bits < 0x7f800000-64*9973; bits += 64 * 9973 {
			for i := range src {
				src[i] = math.Float32frombits(bits + uint32(i*9973))
			}
			e.Log(dst[:], src[:])
			for i, v := range src {
				want, got := math.Log(float64(v)), float64(dst[i])
				worst = max(worst, math.Abs(got-want)/max(math.Abs(want), 1e-30))
			}
		}
		require.Less(t, worst, 1.2e-7)
		t.Logf("largest relative error %.3g", worst)
	})
}

func TestLogAtTheEnds(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	eachKernel(t, 1, func(t *testing.T, e *Exec) {
		negativeZero := float32(math.Copysign(0, -1))
		x := []float32{1, 0, inf, -inf, nan, -1, negativeZero, 1e-40, 0, inf, nan, -1}
		e.Log(x, x)
		requireSameBits(t, []float32{0, -inf, inf, nan, nan, nan, -inf, -inf, -inf, inf, nan, nan},
			x)
	})
}

func TestVectorFunctionsHaveTheSameBitsEverywhere(t *testing.T) {
	assembly := others(t)
	for n := range 70 {
		x, y, gain, bias := normal(n), normal(n), normal(n), normal(n)
		if n > 20 {
			x[3], x[4], y[5], y[6] = float32(math.NaN()), 0, float32(math.Inf(1)),
				float32(math.Copysign(0, -1))
		}
		want := allVectorFunctions(Vectors{}, x, y, gain, bias)
		for _, e := range assembly {
			requireSameBits(t, want, allVectorFunctions(e, x, y, gain, bias))
		}
	}
}

func allVectorFunctions(e Vectors, x, y, gain, bias []float32) (all []float32) {
	out := make([]float32, len(x))
	keep := func(values ...float32) { all = append(append(all, values...), out...) }
	keep(e.Dot(x, y), e.LogSumExp(x))
	copy(out, y)
	keep(e.Softmax(out, 1.5))
	copy(out, y)
	e.SoftmaxAgain(out, 0.5, 0.25, 3)
	keep()
	copy(out, y)
	e.SoftmaxBackward(out, x, 0.3, 0.7)
	keep()
	e.Axpy(out, -0.3, x)
	keep()
	e.Exp(out, y)
	e.Scale(out, 1.3)
	keep()
	e.Log(out, y)
	keep()
	e.Add(out, x, y)
	keep()
	e.ReLU(out, x)
	keep()
	e.ReLUBackward(out, gain, x)
	keep()
	for _, scale := range []float32{1, 4} {
		copy(out, x)
		e.Scale(out, scale)
		e.GELU(out, out)
		keep()
		copy(out, x)
		e.Scale(out, scale)
		e.GELUBackward(out, gain, out)
		keep()
	}
	keep(e.LayerNorm(out, y, gain, bias, 1e-5))
	e.LayerNormBackward(out, x, y, gain, 0.1, 1.2)
	keep()
	e.LayerNormGain(out, x, y, 0.1, 1.2)
	keep()
	return all
}

func TestLayerNormAgreesWithFloat64(t *testing.T) {
	const eps, step = 1e-5, 1e-4
	eachKernel(t, 1, func(t *testing.T, e *Exec) {
		for _, n := range []int{1, 2, 7, 8, 40, 161} {
			x, gain, bias, dy := normal(n), normal(n), normal(n), normal(n)
			y, dx, dgain := make([]float32, n), make([]float32, n), make([]float32, n)
			mean, rstd := e.LayerNorm(y, x, gain, bias, eps)
			e.LayerNormBackward(dx, dy, x, gain, mean, rstd)
			e.LayerNormGain(dgain, dy, x, mean, rstd)

			loss := func(i int, d float64) (sum float64) {
				norm := normRow(x, i, d, eps)
				for j, v := range norm {
					sum += float64(dy[j]) * (v*float64(gain[j]) + float64(bias[j]))
				}
				return sum
			}
			// The rounding error of the mean is divided by the standard deviation. So the tolerance
			// must be large if all numbers of the row are similar.
			within := 1e-5 + 1e-6*float64(rstd)
			for i, v := range normRow(x, 0, 0, eps) {
				require.InDelta(t, v*float64(gain[i])+float64(bias[i]), y[i], within)
				require.InDelta(t, v*float64(dy[i]), dgain[i], within)
				slope := (loss(i, step) - loss(i, -step)) / (2 * step)
				require.InDelta(t, slope, dx[i], 1e-3*(1+math.Abs(slope)), "n %d, element %d", n, i)
			}
		}
	})
}

// normRow returns (x - mean)/sqrt(var + eps) with x[i] increased by d.
func normRow(x []float32, i int, d, eps float64) []float64 {
	y, mean, variance := make([]float64, len(x)), 0., 0.
	for j, v := range x {
		y[j] = float64(v)
	}
	y[i] += d
	for _, v := range y {
		mean += v / float64(len(y))
	}
	for _, v := range y {
		variance += (v - mean) * (v - mean) / float64(len(y))
	}
	for j := range y {
		y[j] = (y[j] - mean) / math.Sqrt(variance+eps)
	}
	return y
}

func TestReLUAtItsEdges(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	eachKernel(t, 1, func(t *testing.T, e *Exec) {
		x := []float32{-1, 0, 2, nan, inf, -inf, 3, -4, -5, 6, nan}
		y := make([]float32, len(x))
		e.ReLU(y, x)
		requireSameBits(t, []float32{0, 0, 2, nan, inf, 0, 3, 0, 0, 6, nan}, y)
		e.ReLUBackward(y, []float32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, x)
		requireSameBits(t, []float32{0, 0, 3, 0, 5, 0, 7, 0, 0, 10, 0}, y)
	})
}

func TestGELUAgreesWithFloat64(t *testing.T) {
	eachKernel(t, 1, func(t *testing.T, e *Exec) {
		const n = 1 << 16
		x, y, dx, ones := make([]float32, n), make([]float32, n), make([]float32, n),
			make([]float32, n)
		for i := range x {
			x[i], ones[i] = float32(-13+26*rand.Float64()), 1
			if i%4 == 0 {
				x[i] = float32(math.Copysign(math.Exp(-40*rand.Float64()), rand.Float64()-0.5))
			}
		}
		e.GELU(y, x)
		e.GELUBackward(dx, ones, x)
		var relative, absolute float64
		for i, v := range x {
			v := float64(v)
			phi := 0.5 * math.Erfc(-v/math.Sqrt2)
			relative = max(relative, math.Abs(float64(y[i])-v*phi)/math.Abs(v*phi))
			slope := phi + v*math.Exp(-v*v/2)/math.Sqrt(2*math.Pi)
			absolute = max(absolute, math.Abs(float64(dx[i])-slope))
		}
		t.Logf("largest relative error %.3g, of the derivative %.3g", relative, absolute)
		require.Less(t, relative, 6e-7)
		require.Less(t, absolute, 3e-7)
	})
}

func TestGELUAtItsEdges(t *testing.T) {
	nan, inf, zero := float32(math.NaN()), float32(math.Inf(1)), float32(math.Copysign(0, -1))
	eachKernel(t, 1, func(t *testing.T, e *Exec) {
		x := []float32{0, zero, nan, inf, -inf, 1e30, -1e30, 20, -14, 0, 1e30}
		y := make([]float32, len(x))
		e.GELU(y, x)
		requireSameBits(t, []float32{0, zero, nan, inf, nan, 1e30, zero, 20, zero, 0, 1e30}, y)
		e.GELUBackward(y, []float32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, x)
		requireSameBits(t, []float32{0.5, 1, nan, nan, nan, 6, 0, 8, 0, 5, 11}, y)
	})
}

func TestSoftmaxAgainGivesTheSameBits(t *testing.T) {
	eachKernel(t, 1, func(t *testing.T, e *Exec) {
		for n := range 50 {
			row := normal(n)
			again := append([]float32(nil), row...)
			most, sum := e.Softmax(row, 2)
			e.SoftmaxAgain(again, 2, most, sum)
			requireSameBits(t, row, again)
		}
	})
}

func TestSoftmaxAndLogSumExpAgreeWithFloat64(t *testing.T) {
	eachKernel(t, 1, func(t *testing.T, e *Exec) {
		for _, n := range []int{1, 2, 7, 8, 9, 100, 256, 641} {
			row, scale := normal(n), float32(3)
			row[n/2] = 80 // e^80 overflows unless the maximum is subtracted
			row[0] = float32(math.Inf(-1))
			if n == 1 {
				row[0] = -80
			}
			total, totalScaled := 0.0, 0.0
			for _, v := range row {
				total += math.Exp(float64(v))
				totalScaled += math.Exp(float64(scale) * float64(v))
			}
			require.InEpsilon(t, math.Log(total), float64(e.LogSumExp(row)), 1e-6)
			want := make([]float64, n)
			for i, v := range row {
				want[i] = math.Exp(float64(scale)*float64(v)) / totalScaled
			}
			e.Softmax(row, scale)
			for i := range row {
				// The exponent is about 240, and its rounding in float32 changes the result by up
				// to 8e-6.
				require.InDelta(t, want[i], float64(row[i]), 1e-5*want[i]+1e-37)
			}
		}
	})
}

func TestLogSumExpOfInfinities(t *testing.T) {
	inf, e := float32(math.Inf(1)), Arithmetic{}.Vectors()
	require.Equal(t, -inf, e.LogSumExp(nil))
	require.Equal(t, -inf, e.LogSumExp([]float32{-inf, -inf}))
	require.Equal(t, inf, e.LogSumExp([]float32{1, inf}))
}

func TestSoftmaxOfAnUnmaskedRowSumsToOne(t *testing.T) {
	row, e := normal(256), Arithmetic{}.Vectors()
	e.Softmax(row, 0)
	for _, v := range row {
		require.Equal(t, float32(1)/256, v)
	}
	e.Softmax(nil, 1)
}

func TestDotRowsAreDots(t *testing.T) {
	eachKernel(t, 1, func(t *testing.T, e *Exec) {
		for _, n := range []int{0, 1, 8, 11, 16, 40} {
			for _, stride := range []int{0, n, n + 3} {
				for _, rows := range []int{0, 1, 2, 9} {
					x, w := normal(rows*n), normal(max(0, rows-1)*stride+n)
					got, want := make([]float32, rows), make([]float32, rows)
					for i := range want {
						want[i] = Vectors{}.Dot(x[i*n:i*n+n], w[i*stride:i*stride+n])
					}
					if rows == 0 {
						w = nil
					}
					e.DotRows(got, x, w, n, stride)
					requireSameBits(t, want, got)
				}
			}
		}
	})
}

func TestAxpyRowsAreAxpys(t *testing.T) {
	eachKernel(t, 1, func(t *testing.T, e *Exec) {
		for _, n := range []int{0, 1, 8, 11, 16, 40} {
			for _, rows := range []int{0, 1, 2, 9} {
				x, a, got := normal(rows*n), normal(rows), normal(n)
				want := slices.Clone(got)
				for i := range a {
					Vectors{}.Axpy(want, a[i], x[i*n:i*n+n])
				}
				e.AxpyRows(got, a, x)
				requireSameBits(t, want, got)
			}
		}
	})
}

func TestDotAndAxpyAgreeWithFloat64(t *testing.T) {
	eachKernel(t, 1, func(t *testing.T, e *Exec) {
		for range 100 {
			n := rand.IntN(200)
			x, y := normal(n), normal(n)
			sum, size := 0.0, 0.0
			for i := range x {
				sum += float64(x[i]) * float64(y[i])
				size += math.Abs(float64(x[i]) * float64(y[i]))
			}
			require.InDelta(t, sum, float64(e.Dot(x, y)), size*float64(n+1)/(1<<24))
			want := make([]float32, n)
			for i := range want {
				want[i] = y[i] + float32(2.5*x[i])
			}
			e.Axpy(y, 2.5, x)
			requireSameBits(t, want, y)
		}
	})
}
