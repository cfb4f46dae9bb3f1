// Command _openblas compares the speed of matrix products in internal/arithmetic/kernel and in
// OpenBLAS, for matrix shapes of our models. It measures both in turn on the same operands, and
// prints medians. The command is a separate module because it needs a C compiler and
// libopenblas-dev.
package main

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
)

var (
	rounds   = flag.Int("rounds", 15, "measurements of each product")
	roundMS  = flag.Int("round-ms", 4, "minimum length of a measurement in milliseconds")
	only     = flag.String("only", "", "only products whose name contains this text")
	quantile = flag.Float64("quantile", 0.5, "quantile of the measurements that is reported: 0.5 "+
		"is the median, 1 the best")
	threads = flag.Int("threads", 2, "maximum number of threads; the comparison runs on 1 to "+
		"this number")
)

// shape is the shape of a product: C is (m,n), and k is the length of the sums. The field form
// specifies which operands are transposed.
type shape struct {
	form    string // NT, NN or TN, where T marks a transposed operand
	m, n, k int
}

func (s shape) String() string { return fmt.Sprintf("%s %dx%dx%d", s.form, s.m, s.n, s.k) }

func (s shape) flops() float64 { return 2 * float64(s.m) * float64(s.n) * float64(s.k) }

// shapes returns the products of the models' layers, which are listed as (rows, outputs, inputs).
// Each layer has three products: forward (NT), gradient of the input (NN) and gradient of the
// weights (TN). The products of one attention head follow.
func shapes() (s []shape) {
	layers := [][3]int{{128, 1536, 512}, {128, 512, 512}, {128, 2048, 512}, {128, 512, 2048},
		{1024, 2048, 512},
		{128, 768, 256}, {128, 1024, 256}, {128, 480, 160}, {128, 160, 160}, {128, 640, 160},
		{128, 160, 640}}
	for _, l := range layers {
		s = append(s, shape{"NT", l[0], l[1], l[2]})
	}
	for _, l := range layers {
		s = append(s, shape{"NN", l[0], l[2], l[1]})
	}
	for _, l := range layers {
		s = append(s, shape{"TN", l[1], l[2], l[0]})
	}
	for _, head := range []int{64, 32} {
		s = append(s, shape{"NT", 128, 640, head}, shape{"NN", 128, head, 640},
			shape{"TN", 640, head, 128})
	}
	for _, rows := range []int{1, 4, 8} {
		s = append(s, shape{"NT", rows, 1536, 512}, shape{"NT", rows, 2048, 512},
			shape{"NT", rows, 512, 2048})
	}
	return append(s, shape{"NT", 1, 640, 64}, shape{"NN", 1, 64, 640})
}

func main() {
	flag.Parse()
	fmt.Println(version())
	for n := 1; n <= *threads; n++ {
		setThreads(n)
		x := kernel.NewExec(n)
		fmt.Printf("\n%d thread(s), GFLOP/s\n%-20s %8s %8s %6s %8s %6s %10s\n", n,
			"C rows x columns x k", "ours", "OpenBLAS", "ratio", "with Add", "/ours", "difference")
		var products []*product
		for _, s := range shapes() {
			if strings.Contains(s.String(), *only) {
				products = append(products, newProduct(x, s))
			}
		}
		compare(products, n)
		x.Close()
	}
}

// product is a shape with its operands and three functions to measure: our product with Matrix.Add,
// our product alone, and OpenBLAS's product.
type product struct {
	shape
	run          [3]func()
	rates        [3]float64 // GFLOP/s of each function
	ours, theirs kernel.Matrix
}

func newProduct(x *kernel.Exec, s shape) *product {
	a, b := random(s.m, s.k), random(s.k, s.n)
	mul, transA, transB := x.MulNN, s.form == "TN", s.form == "NT"
	if transA {
		a, mul = kernel.Mat(a.Data, s.k, s.m), x.MulTN
	}
	if transB {
		b, mul = kernel.Mat(b.Data, s.n, s.k), x.MulNT
	}
	added := b
	added.Add = make([]float32, len(b.Data))
	p := &product{shape: s, ours: random(s.m, s.n), theirs: random(s.m, s.n)}
	p.run = [3]func(){
		func() { mul(p.ours, a, added, false) },
		func() { mul(p.ours, a, b, false) },
		func() { gemm(p.theirs, a, b, transA, transB) },
	}
	return p
}

// compare prints a line for each product. With several threads, it measures all our products first,
// since OpenBLAS's threads occupy the cores for a long time after a product.
func compare(products []*product, threads int) {
	if threads > 1 {
		for _, p := range products {
			p.measure(0, 1)
		}
	}
	for _, p := range products {
		if threads > 1 {
			p.measure(2)
		} else {
			p.measure(0, 1, 2)
		}
		d := difference(p.ours.Data, p.theirs.Data)
		fmt.Printf("%-20s %8.1f %8.1f %6.2f %8.1f %6.2f %10.0e\n", p.shape,
			p.rates[1], p.rates[2], p.rates[1]/p.rates[2], p.rates[0], p.rates[0]/p.rates[1], d)
		if d > 1e-4 {
			fmt.Fprintln(os.Stderr, "the results differ by more than rounding")
			os.Exit(1)
		}
	}
}

func (p *product) measure(which ...int) {
	var f []func()
	for _, i := range which {
		f = append(f, p.run[i])
	}
	for k, rate := range medians(p.flops(), f...) {
		p.rates[which[k]] = rate
	}
}

// medians returns the median speed of each function in GFLOP/s. flops is the number of
// floating-point operations of a call. The functions run in turn, and the order changes from round
// to round, since each function affects caches and clock frequency for the next one.
func medians(flops float64, f ...func()) []float64 {
	rates := make([][]float64, len(f))
	for round := range *rounds {
		for i := range f {
			i = (i + round) % len(f)
			rates[i] = append(rates[i], rate(flops, f[i]))
		}
	}
	m := make([]float64, len(rates))
	for i, r := range rates {
		slices.Sort(r)
		m[i] = r[int(*quantile*float64(len(r)-1))]
	}
	return m
}

func rate(flops float64, f func()) float64 {
	f()
	n, start := 0, time.Now()
	for time.Since(start) < time.Duration(*roundMS)*time.Millisecond {
		f()
		n++
	}
	return float64(n) * flops / float64(time.Since(start).Nanoseconds())
}

func random(rows, cols int) kernel.Matrix {
	m := kernel.Mat(make([]float32, rows*cols), rows, cols)
	for i := range m.Data {
		m.Data[i] = float32(rand.NormFloat64())
	}
	return m
}

// difference returns the root mean square of a-b, divided by the root mean square of b.
func difference(a, b []float32) float64 {
	var d, size float64
	for i := range a {
		d += math.Pow(float64(a[i]-b[i]), 2)
		size += math.Pow(float64(b[i]), 2)
	}
	return math.Sqrt(d / size)
}
