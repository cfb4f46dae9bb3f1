package kernel

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// BenchmarkGEMM measures matrix products of the models enwik8-12l and embedded on one thread, for
// 128 tokens. T in a form marks a transposed operand; C is always (m,n). In the forms with "Add",
// the right operand includes fast weights. Command _openblas measures more shapes.
func BenchmarkGEMM(b *testing.B) {
	shapes := [][3]int{{128, 1536, 512}, {128, 512, 2048}, {128, 640, 160}, {1, 1536, 512}}
	x := NewExec(1)
	for _, form := range []string{"NT", "NTAdd", "NN", "NNAdd", "TN"} {
		for _, s := range shapes {
			m, n, k := s[0], s[1], s[2]
			b.Run(fmt.Sprintf("%s/%dx%dx%d", form, m, n, k),
				func(b *testing.B) { benchProduct(b, x, form, m, n, k) })
		}
	}
	b.Run("TN/1536x512x128", func(b *testing.B) { benchProduct(b, x, "TN", 1536, 512, 128) })
	b.Run("NT/128x640x64", func(b *testing.B) { benchProduct(b, x, "NT", 128, 640, 64) })
	b.Run("NN/128x64x640", func(b *testing.B) { benchProduct(b, x, "NN", 128, 64, 640) })
	b.Run("TN/640x64x128", func(b *testing.B) { benchProduct(b, x, "TN", 640, 64, 128) })
}

// BenchmarkLayer measures all products with the weights of one layer, forward and backward, on one
// thread and on two.
func BenchmarkLayer(b *testing.B) {
	for _, d := range []int{512, 160} {
		for _, threads := range []int{1, 2} {
			b.Run(fmt.Sprintf("d%d/threads%d", d, threads),
				func(b *testing.B) { benchLayer(b, d, threads) })
		}
	}
}

func benchLayer(b *testing.B, d, threads int) {
	const rows = 128
	x := NewExec(threads)
	defer x.Close()
	flops := 0
	var steps []func()
	for _, s := range [][2]int{{3 * d, d}, {d, d}, {4 * d, d}, {d, 4 * d}} {
		out, in := s[0], s[1]
		w, a, y := Mat(normal(out*in), out, in), Mat(normal(rows*in), rows, in),
			Mat(normal(rows*out), rows, out)
		dw, da := Mat(normal(out*in), out, in), Mat(normal(rows*in), rows, in)
		w.Add = normal(out * in)
		steps = append(steps, func() { x.MulNT(y, a, w, false) },
			func() { x.MulNN(da, y, w, false) }, func() { x.MulTN(dw, y, a, false) })
		flops += 3 * 2 * rows * out * in
	}
	for b.Loop() {
		for _, step := range steps {
			step()
		}
	}
	b.ReportMetric(float64(flops)*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "GFLOP/s")
}

func benchProduct(b *testing.B, x *Exec, form string, m, n, k int) {
	mul, left, right := x.MulNN, Mat(normal(m*k), m, k), Mat(normal(k*n), k, n)
	switch form {
	case "NT", "NTAdd":
		mul, right = x.MulNT, Mat(right.Data, n, k)
	case "TN":
		mul, left = x.MulTN, Mat(left.Data, k, m)
	}
	if len(form) > 2 {
		right.Add = normal(k * n)
	}
	c := Mat(make([]float32, m*n), m, n)
	for b.Loop() {
		mul(c, left, right, false)
	}
	b.ReportMetric(2*float64(m*n*k)*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "GFLOP/s")
}

func BenchmarkSoftmax(b *testing.B) {
	src := normal(640)
	row, e := make([]float32, len(src)), Arithmetic{}.Vectors()
	for b.Loop() {
		copy(row, src)
		e.Softmax(row, 0.125)
	}
}

func BenchmarkParallel(b *testing.B) {
	x := NewExec(2)
	defer x.Close()
	var t nothing
	for b.Loop() {
		x.Parallel(16, &t)
	}
}

type nothing struct{}

func (*nothing) Do(*Exec, int) {}

func normal(n int) []float32 {
	s := make([]float32, n)
	for i := range s {
		s[i] = float32(rand.NormFloat64())
	}
	return s
}
