package kernel

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

// TestMain fails if a test leaves goroutines of an Exec running.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func available() []Instructions {
	return []Instructions{Portable, AVX2, AVX512}[:machine-Portable+1]
}

func eachKernel(t *testing.T, threads int, test func(t *testing.T, x *Exec)) {
	for _, set := range available() {
		t.Run(set.String(), func(t *testing.T) {
			withExec(t, threads, Arithmetic{Instructions: set},
				test)
		})
	}
}

func withExec(t *testing.T, threads int, a Arithmetic, test func(t *testing.T, x *Exec)) {
	x := NewExecIn(threads, a)
	defer x.Close()
	test(t, x)
}

// others returns all instruction sets of this machine except Portable. It skips the test if there
// are none.
func others(t testing.TB) []Vectors {
	var all []Vectors
	for _, set := range available()[1:] {
		all = append(all, Arithmetic{Instructions: set}.Vectors())
	}
	if len(all) == 0 {
		t.Skip("no assembly here")
	}
	return all
}

// drawMatrix returns a matrix of random numbers with a random offset and stride. The memory around
// each row is NaN, so that reads outside the matrix are detected.
func drawMatrix(t *rapid.T, rng *rand.Rand, rows, cols int, add bool) Matrix {
	stride := cols + rapid.SampledFrom([]int{0, 0, 1, 7, 16}).Draw(t, "gap")
	offset := rapid.IntRange(0, 5).Draw(t, "offset")
	m := Matrix{Rows: rows, Cols: cols, Stride: stride}
	m.Data = fillView(rng, m, offset)
	if add {
		m.Add = fillView(rng, m, offset)
	}
	return m
}

// fillView returns new memory for a matrix with the shape and stride of m. The elements are random,
// and the memory around each row is NaN.
func fillView(rng *rand.Rand, m Matrix, offset int) []float32 {
	data := make([]float32, offset+m.Rows*m.Stride+9)
	for i := range data {
		data[i] = float32(math.NaN())
	}
	data = data[offset:]
	for i := range m.Rows {
		for j := range m.Cols {
			data[i*m.Stride+j] = float32(rng.NormFloat64())
		}
	}
	return data
}

func (m Matrix) at(i, j int) float32 {
	v := m.Data[i*m.Stride+j]
	if m.Add != nil {
		v += m.Add[i*m.Stride+j]
	}
	return v
}

func (m Matrix) dense() []float32 {
	var s []float32
	for i := range m.Rows {
		for j := range m.Cols {
			s = append(s, m.at(i, j))
		}
	}
	return s
}

func (m Matrix) transposed() Matrix {
	t := Mat(make([]float32, m.Rows*m.Cols), m.Cols, m.Rows)
	if m.Add != nil {
		t.Add = make([]float32, len(t.Data))
	}
	for i := range m.Rows {
		for j := range m.Cols {
			t.Data[j*t.Stride+i] = m.Data[i*m.Stride+j]
			if m.Add != nil {
				t.Add[j*t.Stride+i] = m.Add[i*m.Stride+j]
			}
		}
	}
	return t
}

// requireSameBits requires that two slices are bit-identical. Zeros of different signs differ, but
// all NaNs are equal.
func requireSameBits(t require.TestingT, want, got []float32) {
	require.Len(t, got, len(want))
	for i := range want {
		bothNaN := want[i] != want[i] && got[i] != got[i]
		if !bothNaN && math.Float32bits(want[i]) != math.Float32bits(got[i]) {
			require.Failf(t, "bits differ", "element %d: want %v, got %v", i, want[i], got[i])
		}
	}
}

// forms are the products MulNN, MulNT and MulTN, each as a function of op(A) (m,k) and op(B) (k,n).
var forms = []struct {
	name string
	mul  func(x *Exec, c, a, b Matrix, acc bool)
}{
	{"NN", func(x *Exec, c, a, b Matrix, acc bool) { x.MulNN(c, a, b, acc) }},
	{"NT", func(x *Exec, c, a, b Matrix, acc bool) { x.MulNT(c, a, b.transposed(), acc) }},
	{"TN", func(x *Exec, c, a, b Matrix, acc bool) { x.MulTN(c, a.transposed(), b, acc) }},
}
