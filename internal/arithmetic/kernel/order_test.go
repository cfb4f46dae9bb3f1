package kernel

import (
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The tests in this file check the order of additions that the package comment guarantees.

func multiply(x *Exec, form int, a, b Matrix) Matrix {
	c := Mat(make([]float32, a.Rows*b.Cols), a.Rows, b.Cols)
	forms[form].mul(x, c, a, b, false)
	return c
}

func TestPartsOfAProductHaveTheBitsOfTheWhole(t *testing.T) {
	eachArithmetic(t, 1, func(t *testing.T, x *Exec) {
		rapid.Check(t, func(t *rapid.T) {
			m, n, k := dims(t)
			rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
			a, b := drawMatrix(t, rng, m, k, false), drawMatrix(t, rng, k, n, true)
			whole := multiply(x, 0, a, b)
			i0, i1 := drawRange(t, m)
			j0, j1 := drawRange(t, n)
			form := rapid.IntRange(0, 2).Draw(t, "form of the part")
			part := multiply(x, form, a.RowRange(i0, i1), b.ColRange(j0, j1))
			requireSameBits(t, whole.RowRange(i0, i1).ColRange(j0, j1).dense(), part.Data)
		})
	})
}

func drawRange(t *rapid.T, n int) (lo, hi int) {
	lo = rapid.IntRange(0, n).Draw(t, "lo")
	return lo, rapid.IntRange(lo, n).Draw(t, "hi")
}

func TestRowsOneAtATimeHaveTheBitsOfRowsTogether(t *testing.T) {
	eachArithmetic(t, 1, func(t *testing.T, x *Exec) {
		for _, k := range []int{300, 41, 410, 515} {
			for form := range forms {
				a, b := Mat(normal(13*k), 13, k), Mat(normal(k*21), k, 21)
				together := multiply(x, form, a, b)
				for i := range a.Rows {
					alone := multiply(x, form, a.RowRange(i, i+1), b)
					requireSameBits(t, together.RowRange(i, i+1).dense(), alone.Data)
				}
			}
		}
	})
}

func TestFurtherZeroProductsChangeNothing(t *testing.T) {
	eachArithmetic(t, 1, func(t *testing.T, x *Exec) {
		rapid.Check(t, func(t *rapid.T) {
			m, n, k := dims(t)
			more := rapid.IntRange(0, 300).Draw(t, "more")
			rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
			a, b := drawMatrix(t, rng, m, k+more, false), drawMatrix(t, rng, k+more, n, false)
			for i := range m {
				clear(a.Data[i*a.Stride+k:][:more])
			}
			form := rapid.IntRange(0, 2).Draw(t, "form")
			short := multiply(x, form, a.ColRange(0, k), b.RowRange(0, k))
			requireSameBits(t, short.Data, multiply(x, form, a, b).Data)
		})
	})
}

func TestThreadsDoNotChangeBits(t *testing.T) {
	eachArithmetic(t, 4, func(t *testing.T, x *Exec) {
		for _, s := range [][3]int{{1, 1000, 260}, {70, 129, 257}, {401, 70, 20}, {40, 300, 261}} {
			a, b := Mat(normal(s[0]*s[2]), s[0], s[2]), Mat(normal(s[2]*s[1]), s[2], s[1])
			for form := range forms {
				x.SetThreads(1)
				want := multiply(x, form, a, b)
				for threads := 2; threads <= 4; threads++ {
					x.SetThreads(threads)
					requireSameBits(t, want.Data, multiply(x, form, a, b).Data)
				}
			}
		}
	})
}

func TestSumsAreChainsOverBlocksInOrder(t *testing.T) {
	const k = 2*blockK + 37
	eachKernel(t, 1, func(t *testing.T, x *Exec) {
		step := multiplyThenAdd
		if x.engine.micro != &portable {
			step = fused
		}
		a, b, c := normal(k), normal(k), []float32{0.75}
		want := c[0]
		for from := 0; from < k; from += blockK {
			chain := float32(0)
			for p := from; p < min(from+blockK, k); p++ {
				chain = step(a[p], b[p], chain)
			}
			want += chain
		}
		x.MulNN(Mat(c, 1, 1), Mat(a, 1, k), Mat(b, k, 1), true)
		require.Equal(t, want, c[0])
	})
}

func multiplyThenAdd(a, b, c float32) float32 { return float32(a*b) + c }

// fused returns a*b+c, rounded once.
func fused(a, b, c float32) float32 {
	exact := func(v float32) *big.Float {
		return new(big.Float).SetPrec(400).SetFloat64(
			float64(v))
	}
	v, _ := exact(0).Add(exact(0).Mul(exact(a), exact(b)), exact(c)).Float32()
	return v
}
