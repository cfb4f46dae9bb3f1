package kernel

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// dims draws random sizes of a product, often near multiples of the tile and block sizes.
func dims(t *rapid.T) (m, n, k int) {
	m = rapid.IntRange(0, 20).Draw(t, "m")
	n = rapid.IntRange(0, 40).Draw(t, "n")
	k = rapid.OneOf(rapid.IntRange(0, 40), rapid.SampledFrom([]int{255, 256, 257, 300, 512,
		520})).Draw(t, "k")
	return m, n, k
}

func TestProductsAgreeWithFloat64(t *testing.T) {
	eachKernel(t, 1, func(t *testing.T, x *Exec) {
		rapid.Check(t, func(t *rapid.T) {
			m, n, k := dims(t)
			rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
			acc := rapid.Bool().Draw(t, "acc")
			form := rapid.IntRange(0, 2).Draw(t, "form")
			a := drawMatrix(t, rng, m, k, false)
			b := drawMatrix(t, rng, k, n, rapid.Bool().Draw(t, "add"))
			c := drawMatrix(t, rng, m, n, false)
			before := append([]float32(nil), c.Data...)
			switch form {
			case 0:
				x.MulNN(c, a, b, acc)
			case 1: // MulNT expects the transposed matrix, of shape (n,k)
				b = drawMatrix(t, rng, n, k, b.Add != nil)
				x.MulNT(c, a, b, acc)
				b = b.transposed()
			case 2:
				a = drawMatrix(t, rng, k, m, false)
				x.MulTN(c, a, b, acc)
				a = a.transposed()
			}
			requireProduct(t, c, a, b, before, acc)
		})
	})
}

// requireProduct compares every element of c with a product that is computed in float64. The
// tolerance is the rounding error of n float32 operations: n u / (1 - n u) times the sum of the
// magnitudes, with u = 2^-24. The memory around c must not change.
func requireProduct(t require.TestingT, c, a, b Matrix, before []float32, acc bool) {
	inside := make([]bool, len(before))
	for i := range c.Rows {
		for j := range c.Cols {
			sum, size := 0.0, 0.0
			if acc {
				sum = float64(before[i*c.Stride+j])
				size = math.Abs(sum)
			}
			for p := range a.Cols {
				v := float64(a.at(i, p)) * float64(b.at(p, j))
				sum += v
				size += math.Abs(v)
			}
			ops := float64(2*a.Cols+4) / (1 << 24)
			require.InDelta(t, sum, float64(c.at(i, j)), size*ops/(1-ops)+1e-37, "element (%d,%d)",
				i, j)
			inside[i*c.Stride+j] = true
		}
	}
	for i, in := range inside {
		if !in {
			require.True(t, c.Data[i] != c.Data[i], "wrote outside of c, at %d", i)
		}
	}
}

func TestLargeProductsOverSeveralPieces(t *testing.T) {
	eachKernel(t, 3, func(t *testing.T, x *Exec) {
		rng := rand.New(rand.NewPCG(1, 2))
		for _, form := range forms {
			t.Run(form.name, func(t *testing.T) {
				a, b := Mat(normal(blockRows*2*9), blockRows*2, 9).RowRange(0, blockRows+5),
					Mat(normal(9*150), 9, 150)
				b.Add = normal(9 * 150)
				c := Matrix{Rows: a.Rows, Cols: b.Cols, Stride: b.Cols + 3}
				c.Data = fillView(rng, c, 1)
				before := append([]float32(nil), c.Data...)
				require.Greater(t, a.Rows*b.Cols*9, parallelWork)
				form.mul(x, c, a, b, true)
				requireProduct(t, c, a, b, before, true)
			})
		}
	})
}

// The pieces of a product cover each element once, in every precision and on any number of threads.
func TestPiecesCoverAProduct(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.OneOf(rapid.IntRange(1, 70), rapid.IntRange(1, 9000))
		p := product{m: size.Draw(t, "m"), n: size.Draw(t, "n")}
		threads, most := rapid.IntRange(1, 200).Draw(t, "threads"), blockRows
		if rapid.Bool().Draw(t, "bf16") {
			most = bf16BlockRows
			p.cutBF16(threads)
		} else {
			p.cut(threads, portableCols)
		}
		area := 0
		for i := range p.rowPieces * p.colPieces {
			i0, i1, j0, j1 := p.piece(i)
			require.Less(t, i0, i1)
			require.Less(t, j0, j1)
			require.LessOrEqual(t, i1-i0, most)
			row, col := i/p.colPieces, i%p.colPieces
			if row > 0 {
				_, end, _, _ := p.piece(i - p.colPieces)
				require.Equal(t, end, i0)
			}
			if col > 0 {
				_, _, _, end := p.piece(i - 1)
				require.Equal(t, end, j0)
			}
			area += (i1 - i0) * (j1 - j0)
		}
		require.Equal(t, p.m*p.n, area)
	})
}

func TestProductOverNoKIsZeroOrLeavesC(t *testing.T) {
	x := NewExec(1)
	for _, form := range forms {
		c := Mat([]float32{1, 2, 3, 4}, 2, 2)
		form.mul(x, c, Mat(nil, 2, 0), Mat(nil, 0, 2), true)
		require.Equal(t, []float32{1, 2, 3, 4}, c.Data, form.name)
		form.mul(x, c, Mat(nil, 2, 0), Mat(nil, 0, 2), false)
		require.Equal(t, []float32{0, 0, 0, 0}, c.Data, form.name)
	}
}

func TestViews(t *testing.T) {
	m := Mat([]float32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, 3, 4)
	m.Add = []float32{0, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1000, 1100}
	require.Equal(t, []float32{404, 505, 606, 707}, m.RowRange(1, 2).dense())
	require.Equal(t, []float32{202, 606, 1010}, m.ColRange(2, 3).dense())
	require.Equal(t, []float32{909, 1010}, m.RowRange(2, 3).ColRange(1, 3).dense())
	require.Empty(t, m.RowRange(3, 3).dense())
	require.Empty(t, m.ColRange(4, 4).dense())
	require.Equal(t, 3, m.ColRange(4, 4).Rows)
}

func TestShapesThatDoNotFitPanic(t *testing.T) {
	x := NewExec(1)
	mat := func(rows, cols int) Matrix { return Mat(make([]float32, rows*cols), rows, cols) }
	added := mat(2, 2)
	added.Add = make([]float32, 4)
	short := mat(2, 2)
	short.Data = short.Data[:3]
	for name, f := range map[string]func(){
		"kernel: MulNT: the shapes of c (2, 2), a (2, 3) and b (2, 4) do not fit": func() {
			x.MulNT(mat(2, 2), mat(2, 3), mat(2, 4), false)
		},
		"kernel: MulNN: the shapes of c (2, 2), a (2, 3) and b (2, 3) do not fit": func() {
			x.MulNN(mat(2, 2), mat(2, 3), mat(2, 3), false)
		},
		"kernel: MulTN: the shapes of c (3, 2), a (2, 2) and b (2, 2) do not fit": func() {
			x.MulTN(mat(3, 2), mat(2, 2), mat(2, 2), false)
		},
		"kernel: MulNN: c or a has an Add, expected an Add only in b": func() {
			x.MulNN(mat(2, 2), added, mat(2, 2), false)
		},
		"kernel: matrix a (2, 2) with stride 2 needs 4 elements, has 3 (added: 0)": func() {
			x.MulNN(mat(2, 2), short, mat(2, 2), false)
		},
		"kernel: rows 1 to 3 are out of range for a matrix with 2 rows": func() {
			mat(2,
				2).RowRange(1, 3)
		},
		"kernel: columns 1 to 0 are out of range for a matrix with 2 columns": func() {
			mat(2, 2).ColRange(1, 0)
		},
		"kernel: Dot: lengths 1 and 2 differ": func() {
			x.Dot(make([]float32, 1),
				make([]float32, 2))
		},
		"kernel: SetThreads(2): expected 1 to 1 threads":   func() { x.SetThreads(2) },
		"kernel: Softmax: scale is -1, expected 0 or more": func() { x.Softmax(nil, -1) },
	} {
		require.PanicsWithValue(t, name, f)
	}
}

// With AVX-512 a product may read B in place, with AVX2 it packs B. The results must be
// bit-identical.
func TestStreamedOperandChangesNoBit(t *testing.T) {
	eachKernel(t, 2, func(t *testing.T, x *Exec) {
		packed := NewExecIn(1, Arithmetic{Instructions: min(x.Arithmetic().instructions(), AVX2)})
		defer packed.Close()
		for _, s := range [][3]int{
			{24, 48, 96}, {32, 72, 64}, {64, 136, 300}, {100, 256, 515}, {128, 264, 768},
			{56, 120, 256},
		} {
			m, n, k := s[0], s[1], s[2]
			a := Mat(normal(m*(k+3)), m, k+3).ColRange(1, k+1)
			b := Mat(normal(k*(n+5)), k, n+5).ColRange(2, n+2)
			for form := range 2 {
				for _, acc := range []bool{false, true} {
					before := normal(m * (n + 1))
					c, want := Mat(slices.Clone(before), m, n+1), Mat(before, m, n+1)
					forms[form].mul(x, c.ColRange(0, n), a, b, acc)
					forms[form].mul(packed, want.ColRange(0, n), a, b, acc)
					requireSameBits(t, want.Data, c.Data)
				}
			}
		}
	})
}
