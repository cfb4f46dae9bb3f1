package kernel

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// BenchmarkGEMM runs the products of a chunk of 128 of enwik8-12l and of a smaller
// model on one thread, in the three forms: C is (m,n) throughout. "Add" has fast
// weights.
func BenchmarkGEMM(b *testing.B) {
	shapes := [][3]int{{128, 1536, 512}, {128, 512, 512}, {128, 2048, 512}, {128, 512, 2048}, {128, 768, 256}, {128, 1024, 256}}
	x := NewExec(1)
	for _, form := range []string{"NT", "NTAdd", "NN", "NNAdd", "TN"} {
		for _, s := range shapes {
			m, n, k := s[0], s[1], s[2]
			b.Run(fmt.Sprintf("%s/%dx%dx%d", form, m, n, k), func(b *testing.B) { benchProduct(b, x, form, m, n, k) })
		}
	}
	for _, m := range []int{1, 4, 8} {
		b.Run(fmt.Sprintf("NTAdd/%dx1536x512", m), func(b *testing.B) { benchProduct(b, x, "NTAdd", m, 1536, 512) })
	}
	b.Run("TN/1536x512x128", func(b *testing.B) { benchProduct(b, x, "TN", 1536, 512, 128) })
	b.Run("NT/128x640x64", func(b *testing.B) { benchProduct(b, x, "NT", 128, 640, 64) })
	b.Run("NN/128x64x640", func(b *testing.B) { benchProduct(b, x, "NN", 128, 64, 640) })
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
	row := make([]float32, len(src))
	for b.Loop() {
		copy(row, src)
		Softmax(row, 0.125)
	}
}

// BenchmarkParallel is the cost of handing an operation to the other threads.
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

// normal is n normally distributed numbers.
func normal(n int) []float32 {
	s := make([]float32, n)
	for i := range s {
		s[i] = float32(rand.NormFloat64())
	}
	return s
}
